"""The words we write in: those of PyTorch, NumPy and LLVM. Words of the first version that must not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".pyi", ".cpp", ".h", ".c", ".md", ".html", ".toml", ".cmake", ""}
# What must not be written, and what to write instead.
WORDS = {
    r"\b(?:numbers?|bits?|labels?|rows?|files?|folders?|networks?|scales?|thresholds?|lanes?|values?|once|one|weights?|"
    r"words?|names?|sums?|tensors?|channels?|objects?|shifts?|matri(?:x|ces)|floats?|seeds?|dicts?|fields?|lines?) an? "
    r"(?:point|cloud|code|class|category|output|channel|layer|epoch|file|row|block|step|run|thread|axis|network|model|"
    r"line|pair|column|method|fold|room|shape|task|seed|folder|number|pass|process)s?\b": "per",
    r"\bjudg(?:e|es|ed|ing|ement)s?\b": "evaluate",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\blook(?:s|ed|ing)? into\b": "inspect",
    r"\brac(?:e|es|ed|ing)\b(?! condition)": "benchmark",
    r"as it should be": "OK: all checks passed",
    r"\bexpected is\b": "expected one of",
    r"\bcolour": "color",
    r"\bgrey\b": "gray",
    r"\bnormalis": "normaliz",
    r"\bregularis": "regulariz",
    r"\blabell(?:ed|ing|er)": "labeled",
    r"\bcentr(?:e|es|ed)\b": "center",
    r"\bXNORPlus\b": "XNORPlusPlus",
    r"\bJoinedLinear\b": "ConcatLinear",
    r"\bspread_planes\b|--spread\b": "init_biases, --init-bias-std",
}


def texts() -> list[Path]:
    paths = [path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".")]
    for folder in ("benchmarks", "core", "docs", "examples", "src", "tests"):
        paths += (path for path in (ROOT / folder).rglob("*") if path.is_file())
    own = {Path(__file__), ROOT / "LICENSE"}
    return [path for path in paths if path.suffix in SUFFIXES and path not in own]


@pytest.mark.parametrize("pattern", WORDS, ids=WORDS.values())
def test_a_word_of_the_old_dialect_does_not_come_back(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    assert not found, f"write {WORDS[pattern]!r} instead:\n" + "\n".join(found)
