"""Awkward files of many programs: Python and the C++ tool read the same points, in the order of the file."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from awkward_files import Refused, Valid, refused, valid

from bipointnet.data import clouds, library_files
from bipointnet.errors import UserError


def names(files: tuple[Valid, ...] | tuple[Refused, ...]) -> list[str]:
    return [file.name for file in files]


def is_cores(file: Valid | Refused) -> bool:
    """Whether the core parses the format, and so the C++ tool does."""
    return Path(file.name).suffix.lower() not in library_files.SUFFIXES


CORES = tuple(file for file in valid() if is_cores(file))
CORES_REFUSED = tuple(file for file in refused() if is_cores(file))


def written(folder: Path, file: Valid | Refused) -> Path:
    (folder / file.name).write_bytes(file.data)
    return folder / file.name


def dump(tool: Path, path: Path, columns: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    options = ["--columns", ",".join(columns)] if columns else []
    return subprocess.run([tool, "--dump", path, *options], capture_output=True, text=True, check=False)


def test_the_table_covers_every_format() -> None:
    assert len(names(valid())) == len({*names(valid())}) >= 80
    assert {Path(file.name).suffix.lower() for file in valid()} == {*clouds.SUFFIXES}


@pytest.mark.parametrize("file", valid(), ids=names(valid()))
def test_python_reads(tmp_path: Path, file: Valid) -> None:
    cloud = clouds.read(written(tmp_path, file), columns=file.columns)
    np.testing.assert_allclose(cloud.points + np.array(cloud.origin), file.points, rtol=1e-6, atol=1e-6)
    assert cloud.points.dtype == np.float32
    assert (cloud.colors is None) == (file.colors is None)
    if cloud.colors is not None:
        np.testing.assert_allclose(cloud.colors, file.colors, atol=1e-6)
    assert (0 if cloud.faces is None else len(cloud.faces)) == file.faces
    assert cloud.dropped == file.dropped
    assert (cloud.kept is None) == (file.dropped == 0)
    assert all(len(values) == len(cloud.points) for values in cloud.fields.values())
    if file.dropped:
        with pytest.raises(UserError, match="--strict"):
            clouds.read(tmp_path / file.name, columns=file.columns, strict=True)


@pytest.mark.parametrize("file", CORES, ids=names(CORES))
def test_the_tool_reads_the_same(tmp_path: Path, run_tool: Path, file: Valid) -> None:
    cloud = clouds.read(written(tmp_path, file), columns=file.columns)
    table = cloud.points if cloud.colors is None else np.hstack([cloud.points, cloud.colors])
    lines = [" ".join(f"{value:.9g}" for value in row) for row in table.tolist()]
    shown = dump(run_tool, tmp_path / file.name, file.columns)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == lines


def require_sentence(sentence: str, file: Refused) -> None:
    assert file.word in sentence
    assert file.name in sentence
    assert "\n" not in sentence.strip()
    assert len(sentence.partition(file.name)[2]) < 250


@pytest.mark.parametrize("file", refused(), ids=names(refused()))
def test_python_refuses(tmp_path: Path, file: Refused) -> None:
    with pytest.raises(UserError) as caught:
        clouds.read(written(tmp_path, file), columns=file.columns)
    require_sentence(str(caught.value), file)


@pytest.mark.parametrize("file", CORES_REFUSED, ids=names(CORES_REFUSED))
def test_the_tool_refuses(tmp_path: Path, run_tool: Path, file: Refused) -> None:
    shown = dump(run_tool, written(tmp_path, file), file.columns)
    assert shown.returncode == 2
    assert shown.stdout == ""
    require_sentence(shown.stderr, file)


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xe4ume.xyz"))
    path.write_text("1 2 3\n")
    assert clouds.read(path).points.tolist() == [[1, 2, 3]]
