"""What MkDocs cannot do alone: pages for files outside docs/, the help of every command, and the live page.

Pages of docs/ link to files of the repository, like ../benchmarks/README.md. Each of these files, and each file that it
links to, becomes a page under source/ of the site, and the links lead there.
"""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from bipointnet.cli import app
from bipointnet.cli.web import web

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
COMMANDS = "reference/commands.md"  # the help of every command is appended to this page
LIVE_PAGE = "live"  # the folder of the site in which `bipointnet web` writes
LINK = re.compile(r"(?<=\]\()[^)#\s]+")
LANGUAGES = {".py": "python", ".h": "c", ".c": "c", ".cpp": "cpp", ".json": "json", ".ts": "ts", ".js": "js"}
SHOWN = {*LANGUAGES, ".md", ".txt"}  # of a folder
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"


def linked(text: str, path: Path) -> list[Path]:
    """The files and folders of the repository to which the Markdown `text` of the file `path` links."""
    found = [(path.parent / link).resolve() for link in LINK.findall(text)]
    return [target for target in found if target.is_relative_to(ROOT) and target.exists()]


def document(path: Path) -> Path:
    """The file that is shown for `path`: the README of a folder that has one, else `path`."""
    return path / "README.md" if (path / "README.md").is_file() else path


def uri(path: Path) -> str:
    """The page of a file or folder of the repository, by its name in the site before it becomes HTML."""
    path = document(path)
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = (Path("source") / path.relative_to(ROOT)).as_posix()
    if path.is_dir():
        return f"{name}/index.md"
    return name if path.suffix == ".md" else f"{name}.md"


def with_links_to_pages(text: str, path: Path) -> str:
    """The Markdown `text` of the file `path`; its links to files of the repository lead to their pages."""
    folder = posixpath.dirname(uri(path))

    def target(link: re.Match[str]) -> str:
        found = linked(f"]({link[0]})", path)
        return posixpath.relpath(uri(found[0]), folder) if found else link[0]

    return LINK.sub(target, text)


def page_text(path: Path) -> str:
    """The Markdown of the page of a file or folder outside docs/."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        shown = (child for child in path.iterdir() if child.suffix in SHOWN)
        names = sorted(child.name for child in shown)
        return f"{UNSEARCHED}# {name}\n\n" + "".join(f"- [{child}]({child})\n" for child in names)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"{UNSEARCHED}# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n````\n"


def outside_pages(pages: Iterable[Path]) -> dict[Path, str]:
    """The Markdown of every file and folder outside docs/ that can be reached by links from `pages`."""
    found: dict[Path, str] = {}
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    while texts:
        targets = {document(target) for path, text in texts.items() for target in linked(text, path)}
        new = sorted(target for target in targets if target not in found and not target.is_relative_to(DOCS))
        # Links of a listing are relative to the folder, and those of a file to the folder of the file.
        texts = {path / "index.md" if path.is_dir() else path: page_text(path) for path in new}
        found |= dict(zip(new, texts.values(), strict=True))
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in outside_pages(DOCS / file.src_uri for file in files.documentation_pages()).items():
        base = path / "index.md" if path.is_dir() else path
        content = with_links_to_pages(text, base)
        files.append(File.generated(config, uri(path), content=content, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.generated_by is not None:
        return markdown
    if page.file.src_uri == COMMANDS:
        markdown += commands()
    return with_links_to_pages(markdown, DOCS / page.file.src_uri)


def commands() -> str:
    """The help of every command, as Markdown."""
    group: Any = typer.main.get_command(app)
    return "".join(command_help(name, command) for name, command in group.commands.items())


def command_help(name: str, command: Any) -> str:
    """What `bipointnet NAME --help` prints, as Markdown."""
    arguments, options = list[tuple[str, str]](), list[tuple[str, str]]()
    for parameter in command.params:
        about = re.sub(r"([|*])", r"\\\1", parameter.help or "")
        if parameter.param_type_name == "argument":
            arguments.append((f"`{parameter.metavar or parameter.name.upper()}`", about))
        else:
            options.append((", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts)), about))
    usage = " ".join(["bipointnet", name, *(argument.strip("`") for argument, _ in arguments), "[OPTIONS]"])
    text = re.sub(r"^Example: (.+)$", r"Example: `\1`", command.help, flags=re.MULTILINE)
    table = "".join(f"| {flags} | {about} |\n" for flags, about in arguments + options)
    return f"\n## {name}\n\n```text\n{usage}\n```\n\n{text}\n\n| option | |\n|---|---|\n{table}"


def on_post_build(config: MkDocsConfig) -> None:
    web(Path(config.site_dir) / LIVE_PAGE, [])
