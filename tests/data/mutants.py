"""Damaged copies of valid files, and a worker that reads them under limits.

As a program, `python mutants.py FORMAT FIRST LAST` reads the mutants FIRST to LAST - 1 of a format. It prints the
number of each before it reads it, and a line for each that is neither read nor refused in one sentence. It may die: the
test that starts it then knows which mutant it was.
"""

import io
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from awkward_files import Valid, valid

SECONDS = 5  # of processor time per file
MEMORY = 500_000_000  # bytes beside those that an idle worker has

# One table of mutants per parser: format -> suffixes
FORMATS = {
    "text": (".xyz", ".txt", ".csv", ".pts", ".asc", ".xyzn", ".xyzrgb"),
    "ptx": (".ptx",),
    "ply": (".ply",),
    "pcd": (".pcd",),
    "off": (".off",),
    "obj": (".obj",),
    "stl": (".stl",),
    "npy": (".npy",),
    "floats": (".bin", ".f32", ".raw"),
    "las": (".las",),
    "laz": (".laz",),
    "e57": (".e57",),
    "gltf": (".glb", ".gltf"),
    "npz": (".npz",),
}
HUGE = (0, 1, 255, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
NUMBERS = (
    b"-1",
    b"0",
    b"nan",
    b"inf",
    b"1e308",
    b"-1e-320",
    b"2147483648",
    b"4294967295",
    b"99999999999999999999",
    b"1e5",
)


def mutant(kind: str, number: int) -> Valid:
    """The mutant with this number, always the same one."""
    rng = random.Random(f"{kind} {number}")
    sources = _sources(kind)
    file = rng.choice(sources)
    other = rng.choice(sources).data
    if kind == "npz" and rng.random() < 0.5:
        return file._replace(data=_in_archive(rng, file.data, other))
    if file.name.endswith(".glb") and rng.random() < 0.5:
        return file._replace(data=_in_document(rng, file.data))
    data = file.data
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(MUTATIONS)(rng, data, other)
    if kind == "e57" and rng.random() < 0.7:
        data = _with_checksums(data)
    return file._replace(data=data or b"\n")


@cache
def _sources(kind: str) -> list[Valid]:
    return [file for file in valid() if Path(file.name).suffix.lower() in FORMATS[kind]]


def _flip(rng: random.Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _flip in range(rng.choice((1, 1, 2, 8, 32))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(rng: random.Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _number_in_text(rng: random.Random, data: bytes, _: bytes) -> bytes:
    found = list(re.finditer(rb"[-+.0-9eE]+", data[:20_000]))
    if not found:
        return data
    spot = rng.choice(found)
    return data[: spot.start()] + rng.choice(NUMBERS) + data[spot.end() :]


def _number_in_bytes(rng: random.Random, data: bytes, _: bytes) -> bytes:
    form = rng.choice(("<B", "<H", "<I", "<Q", ">I"))
    value = struct.pack(form, rng.choice(HUGE) % 2 ** (8 * struct.calcsize(form)))
    at = rng.randrange(min(len(data), 2000) + 1)
    return data[:at] + value + data[at + len(value) :]


def _splice_lines(rng: random.Random, data: bytes, other: bytes) -> bytes:
    lines, more = data.split(b"\n"), rng.choice((data, other)).split(b"\n")
    at = rng.randrange(len(lines))
    inserted = [rng.choice(more)] * rng.choice((0, 1, 1, 30))
    return b"\n".join(lines[:at] + inserted + lines[at + rng.choice((0, 1)) :])


def _splice_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at, start = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    return data[:at] + other[start : start + rng.choice((1, 16, 1000))] + data[at + rng.choice((0, 0, 1, 16)) :]


MUTATIONS = (_flip, _truncate, _number_in_text, _number_in_bytes, _splice_lines, _splice_bytes)


def _in_archive(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Damage an array, and pack it as if it were whole."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(entries))
    entries[name] = rng.choice(MUTATIONS)(rng, entries[name], entries[name])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for key, value in entries.items():
            archive.writestr(key, value)
    return file.getvalue()


def _in_document(rng: random.Random, data: bytes) -> bytes:
    """Damage the JSON of a .glb, with the lengths of its chunks correct."""
    size = struct.unpack_from("<I", data, 12)[0]
    document = rng.choice((_number_in_text, _number_in_text, _flip, _splice_bytes))(rng, data[20 : 20 + size], data)
    body = struct.pack("<I4s", len(document), b"JSON") + document + data[20 + size :]
    return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body


@cache
def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def _with_checksums(data: bytes) -> bytes:
    """An E57 file whose pages have the checksums of their content, so that more than these is tested."""
    table, pages = _crc_table(), []
    for start in range(0, len(data) - 1023, 1024):
        page, crc = data[start : start + 1020], 0xFFFFFFFF
        for byte in page:
            crc = crc >> 8 ^ table[(crc ^ byte) & 255]
        pages.append(page + struct.pack(">I", crc ^ 0xFFFFFFFF))
    return b"".join(pages)


def failures(kind: str, first: int, last: int) -> Iterator[str]:
    """Read mutants; yields the number of each, and a line for each failure."""
    from bipointnet.data import clouds
    from bipointnet.errors import UserError

    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, last):
            file = mutant(kind, number)
            path = Path(folder) / file.name
            path.write_bytes(file.data)
            yield f"{number}"
            # The default action of the signal ends the process, whatever it does.
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                cloud = clouds.read(path, columns=file.columns)
                assert len(cloud.points) > 0
            except UserError as error:
                if "needs more memory" in str(error) or "\n" in str(error):
                    yield f"{number}: {file.name}: {error}"
            except BaseException as error:  # a panic of a library is no Exception
                yield f"{number}: {file.name}: " + "".join(traceback.format_exception(error)).replace("\n", " | ")
            signal.setitimer(signal.ITIMER_PROF, 0)
            path.unlink()


def main(kind: str, first: str, last: str) -> None:
    _sources(kind)
    next(failures(kind, 0, 1))  # what is imported does not count
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for line in failures(kind, int(first), int(last)):
        print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
