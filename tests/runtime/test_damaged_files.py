"""Damaged model files: every flipped bit, cut, addition or exchange is a FormatError, in the core and in the reference.

With a new checksum a mutant gets past it. Then it is a FormatError, or a model whose golden run is correct.
"""

import itertools
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import complaint

import bipointnet
from bipointnet import FormatError, UserError, _core
from bipointnet.packing.container import signed
from bipointnet.runtime import reference
from bipointnet.runtime.header import peek

FOLDER = Path(__file__).parents[1] / "golden"
FOUR = ("shapes", "shapes-xnor", "rooms-semantic", "neighbors")
SMALL = ("shapes-tnets", "rooms-semantic", "neighbors")  # their golden runs are fast


def content_of(name: str) -> bytes:
    return (FOLDER / f"{name}.bpn").read_bytes()


def header_end(content: bytes | bytearray) -> int:
    return 8 + struct.unpack_from("<Q", content)[0]


def core_error(content: bytes) -> str:
    """The sentence with which the core refuses a file; "" for a model."""
    try:
        _core.Model(content, "portable")
    except _core.FormatError as error:
        return str(error)
    return ""


def reference_error(content: bytes) -> str:
    try:
        reference.parse(content)
    except FormatError as error:
        return str(error)
    return ""


def assert_refused(content: bytes, what: object) -> str:
    found, expected = core_error(content), reference_error(content)
    assert found, f"the core loads {what}"
    assert expected, f"the reference reads {what}"
    assert "\n" not in found + expected
    return found


@pytest.mark.parametrize("name", FOUR)
def test_every_flipped_bit_is_refused(name):
    content = bytearray(content_of(name))
    rng = np.random.default_rng(FOUR.index(name))
    flips = [*rng.integers(8 * len(content), size=1900), *rng.integers(8 * header_end(content), size=500)]
    for bit in [*flips, *range(8 * len(content) - 100, 8 * len(content))]:
        content[bit // 8] ^= 1 << bit % 8
        assert_refused(bytes(content), f"bit {bit}")
        content[bit // 8] ^= 1 << bit % 8
    assert core_error(bytes(content)) == reference_error(bytes(content)) == ""


@pytest.mark.parametrize("name", FOUR)
def test_every_cut_and_every_addition_is_refused(name):
    content = content_of(name)
    rng = np.random.default_rng(0)
    for size in [*rng.integers(len(content), size=200), 0, 7, 8, len(content) - 8, len(content) - 1]:
        expected = 8 if size < 8 else header_end(content) if size < header_end(content) else len(content)
        assert_refused(content[:size], f"{size} bytes")
        assert core_error(content[:size]) == f"file: cut short after {size} bytes, expected {expected}"
    for more in (b"\0", b"\n", bytes(8), content[-8:], content):
        assert "more bytes than its header describes" in assert_refused(content + more, f"{len(more)} more bytes")


@pytest.mark.parametrize("name", FOUR)
def test_exchanged_and_zeroed_blocks_are_refused(name):
    content = content_of(name)
    rng = np.random.default_rng(0)
    for size in itertools.islice(itertools.cycle((1, 8, 64, 512, 4096)), 300):
        a, b = (int(start) for start in rng.integers(len(content) - size, size=2))
        changed = bytearray(content)
        changed[a : a + size], changed[b : b + size] = content[b : b + size], content[a : a + size]
        zeroed = content[:a] + bytes(size) + content[a + size :]
        for mutant in (bytes(changed), zeroed):
            if mutant != content:
                assert_refused(mutant, f"{size} bytes at {a} and {b}")


def replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    """The file with a change in its header, which is padded again."""
    end = header_end(content)
    header = content[8:end].rstrip(b" ").replace(old, new, 1)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[end:]


def mutants(name: str, rng: np.random.Generator) -> Iterator[bytes]:
    """Files with one to four changed places."""
    content = content_of(name)
    end = header_end(content)
    meaningful = b'"\\{}[]:,-+.eE0123456789tfn '
    while True:
        mutant = bytearray(content)
        for _ in range(rng.integers(1, 5)):
            in_header = rng.random() < 0.5
            place = int(rng.integers(8, end) if in_header else rng.integers(end, len(content) - 8))
            kind = rng.integers(4)
            if kind == 0:
                mutant[place] ^= 1 << rng.integers(8)
            elif kind == 1:
                mutant[place] = rng.choice(list(meaningful)) if in_header else rng.integers(256)
            elif kind == 2:
                size = int(rng.integers(1, 9))
                other = int(rng.integers(8, len(content) - 16))
                mutant[place : place + size] = mutant[other : other + size]
            elif in_header:  # another digit keeps the JSON valid
                digits = [i for i in range(8, end) if chr(mutant[i]).isdigit()]
                mutant[int(rng.choice(digits))] = ord("0") + int(rng.integers(10))
        yield signed(bytes(mutant[: len(content)]))


@pytest.mark.parametrize("name", SMALL)
def test_a_mutant_with_a_new_checksum_is_refused_or_computes_its_golden_vector(name):
    outcomes = {False: 0, True: 0}  # loaded; refused for other golden logits, by the core and by the reference
    for mutant in itertools.islice(mutants(name, np.random.default_rng(7)), 600):
        error = core_error(mutant)
        if reference_error(mutant):
            assert error, "the core loads what the reference refuses"
        assert "\n" not in error
        if error and not error.startswith("golden: logit"):
            continue
        packed = reference.parse(mutant)
        golden, logits = packed.manifest["golden"], reference.golden_logits(packed)
        difference = np.abs(logits.astype(np.float64) - packed.tensors["golden"].astype(np.float64)).max()
        assert (difference <= golden["tolerance"]) == (not error), error
        outcomes[bool(error)] += 1
        if not error:
            cloud = reference.golden_cloud(golden["seed"], golden["points"], packed.manifest["channels"])
            found = _core.Model(mutant, "portable").predict(cloud[None], False, 1)[0]
            assert np.array_equal(found.view(np.uint32), logits.view(np.uint32))
    assert min(outcomes.values()) > 5


MANIFESTS: dict[str, tuple[bytes, bytes, str]] = {
    "a lone high surrogate": (b'\\"model\\":\\"', b'\\"model\\":\\"\\\\ud800', "surrogate pair"),
    "a lone low surrogate": (b'\\"model\\":\\"', b'\\"model\\":\\"\\\\udc00x', "surrogate pair"),
    "a lone surrogate in the header": (b'{"bipointnet":"', b'{"bipointnet":"\\ud800', "surrogate pair"),
    "two keys": (b'\\"format\\":2', b'\\"format\\":2,\\"format\\":2', "twice"),
    "NaN": (b'\\"training\\":{', b'\\"training\\":{\\"x\\":NaN,', "expected a value"),
    "deep lists": (b'\\"training\\":{', b'\\"training\\":{\\"x\\":' + b"[" * 63 + b"]" * 63 + b",", "64 levels"),
    "deep lists without end": (b'\\"training\\":{', b'\\"training\\":{\\"x\\":' + b"[" * 100_000, "64 levels"),
    "text after the manifest": (
        b'"__metadata__":{"bipointnet":"',
        b'"__metadata__":{"bipointnet":"7 ',
        "expected the end",
    ),
    "no UTF-8": (b"bipointnet", b"bipoint\xff", "UTF-8"),
    "an overlap": (b'"data_offsets":[0,', b'"data_offsets":[8,', ""),
    "no checksum": (b'"checksum"', b'"checksun"', "checksum: missing tensor"),
    "a negative offset": (b'"data_offsets":[0,', b'"data_offsets":[-1,', "integers from 0"),
    "a fraction": (b'"data_offsets":[0,', b'"data_offsets":[0.0,', "integers from 0"),
    "an unknown dtype": (b'"dtype":"U64"', b'"dtype":"U32"', "dtype"),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_the_core_and_the_reference_refuse_the_same_headers(what):
    old, new, words = MANIFESTS[what]
    content = content_of("shapes-tnets")
    mutant = signed(replaced(content, old, new))
    assert mutant != content
    assert words in assert_refused(mutant, what)


def test_a_deep_but_valid_header_and_pairs_of_surrogates_are_read():
    content = content_of("shapes-tnets")
    for old, new in [
        (b'\\"training\\":{', b'\\"training\\":{\\"x\\":' + b"[" * 62 + b"]" * 62 + b","),
        (b'\\"model\\":\\"', b'\\"model\\":\\"\\\\ud83d\\\\ude00'),
        (b'\\"training\\":{', b'\\"training\\":{\\"x\\":-1e-999,\\"y\\":1e999,\\"z\\":' + b"9" * 5000 + b","),
    ]:
        mutant = signed(replaced(content, old, new))
        assert core_error(mutant) == reference_error(mutant) == ""


def test_load_raises_a_format_error_in_one_sentence(tmp_path):
    assert issubclass(FormatError, UserError)
    assert issubclass(FormatError, ValueError)
    path, content = tmp_path / "model.bpn", content_of("shapes")
    rng = np.random.default_rng(1)
    for bit in rng.integers(8 * len(content), size=60):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(FormatError) as raised:
            bipointnet.load(path)
        assert str(raised.value).startswith(f"{path}: not a packed model, or a damaged one (")
        assert "\n" not in str(raised.value)
    path.write_bytes(content[:-5])
    with pytest.raises(
        FormatError, match=rf"file: cut short after {len(content) - 5} bytes, expected {len(content)}\)"
    ):
        bipointnet.load(path)


def bytes_read(work: Callable[[], object]) -> int:
    """How many bytes this process reads while it works; 0 where the system does not count them."""
    counter = Path("/proc/self/io")

    def total() -> int:
        return int(counter.read_text().split()[1]) if counter.exists() else 0

    before = total()
    work()
    return total() - before


@pytest.mark.parametrize("kind", ["text", "foreign", "checkpoint", "longer", "shorter"])
def test_a_large_file_with_a_wrong_header_is_refused_at_once(tmp_path, kind):
    size = 2**32
    weights = {"dtype": "F32", "shape": [2**30 - 2**10], "data_offsets": [0, size - 2**12]}
    headers = {
        "foreign": {"__metadata__": {"format": "pt"}, "weight": weights},
        "checkpoint": {"__metadata__": {"bipointnet": '{"config":{}}'}, "weight": weights},
    }
    start = content_of("shapes")
    if kind in headers:
        text = json.dumps(headers[kind]).encode()
        start = len(text).to_bytes(8, "little") + text
    elif kind == "text":
        start = b"# a text\n" * 9
    elif kind == "shorter":  # the header promises more bytes than there are
        entry = b',"checksum":{"dtype":"U64","shape":[1],"data_offsets":'
        end = int(start.split(entry + b"[")[1].split(b",")[0])
        more = b',"z":{"dtype":"U64","shape":[1099511627776],"data_offsets":[%d,%d]}' % (end, end + 2**43)
        start = replaced(
            start, entry + b"[%d,%d]" % (end, end + 8), more + entry + b"[%d,%d]" % (end + 2**43, end + 2**43 + 8)
        )
    path = tmp_path / "large.bpn"
    path.write_bytes(start)
    os.truncate(path, size)  # sparse

    def refuse() -> None:
        with pytest.raises(FormatError) as raised:
            bipointnet.load(path)
        if kind in ("longer", "shorter"):
            assert f"file: {'more bytes than' if kind == 'longer' else f'cut short after {size}'}" in str(raised.value)

    assert bytes_read(refuse) < 2**20
    assert bytes_read(lambda: peek(path)) < 2**20


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing.bpn", "no such file"),
        ("x" * 300, "cannot be read (File name too long)"),
        ("nul\0.bpn", "cannot be read (a name with the character NUL)"),
        (".", "a folder; expected a packed model"),
        ("/dev/zero", "not a packed model"),
        ("/proc/self/mem", "cannot be read (Input/output error)"),
    ],
)
def test_an_error_of_the_operating_system_is_one_sentence(tmp_path, path, words):
    if path.startswith("/proc") and not Path(path).exists():
        pytest.skip("a file that fails to be read, in Linux")
    with pytest.raises(UserError) as raised:
        bipointnet.load(tmp_path / path)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_peek_says_why_a_file_cannot_be_read(tmp_path):
    for path, words in {
        tmp_path: "Is a directory",
        tmp_path / "missing": "No such file",
        tmp_path / ("x" * 300): "too long",
    }.items():
        with pytest.raises(UserError, match=words):
            peek(path)


def test_a_pipe_is_read_to_its_end():
    content = content_of("shapes-tnets")  # smaller than the buffer of a pipe
    for sent, accepted in ((content, True), (content + b"x", False), (content[:-1], False)):
        reader, writer = os.pipe()
        os.write(writer, sent)
        os.close(writer)
        try:
            if accepted:
                assert bipointnet.load(f"/dev/fd/{reader}").bytes == len(content)
            else:
                with pytest.raises(FormatError):
                    bipointnet.load(f"/dev/fd/{reader}")
        finally:
            os.close(reader)


def test_the_command_line_exits_with_code_2(tmp_path):
    content = bytearray(content_of("shapes"))
    content[-100] ^= 4
    (tmp_path / "flipped.bpn").write_bytes(content)
    (tmp_path / "cut.bpn").write_bytes(content[:-1])
    np.savetxt(tmp_path / "cloud.xyz", np.eye(3))
    for command in (["predict", "cloud.xyz", "-m"], ["inspect"], ["verify"]):
        assert "checksum: 0x" in complaint(*command, "flipped.bpn", cwd=tmp_path)
        assert "cut short after" in complaint(*command, "cut.bpn", cwd=tmp_path)
