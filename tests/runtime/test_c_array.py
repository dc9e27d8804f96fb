"""A packed model as a C header: the same bytes, and a C program that includes it gets the logits of Python."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from commands import succeed

import bipointnet
from bipointnet import shipped
from bipointnet.runtime.c_array import array_name

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "golden" / "shapes.bpn"
PROGRAM = """
#include <stdio.h>

#include "bipointnet.h"
#include "shapes.h"

int main(void) {
    static float cloud[300], logits[20];
    bipointnet_model *model = NULL;
    if (((size_t)shapes_bpn & 63) != 0) return 1;
    if (bipointnet_load_bytes(shapes_bpn, shapes_bpn_size, &model) != BIPOINTNET_OK) return 2;
    if (bipointnet_classes(model) != 20 || fread(cloud, sizeof *cloud, 300, stdin) != 300) return 3;
    if (bipointnet_predict(model, cloud, 1, 100, 0, 1, logits) != BIPOINTNET_OK) return 4;
    fwrite(logits, sizeof *logits, 20, stdout);
    bipointnet_free(model);
    return 0;
}
"""


def bytes_of(header: Path) -> bytes:
    (array,) = re.findall(r"= \{\n([\d,\n]+)\n\};", header.read_text())
    return bytes(int(number) for number in array.replace("\n", "").rstrip(",").split(","))


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("array") / "shapes.h"
    size = MODEL.stat().st_size
    assert succeed("export", MODEL, "--c-array", "-o", path) == f"{path}: {size:,} bytes as the array shapes_bpn\n"
    return path


def test_the_array_has_the_bytes_of_the_file(header: Path):
    assert bytes_of(header) == MODEL.read_bytes()
    assert max(map(len, header.read_text().splitlines())) <= 120
    assert [path.name for path in header.parent.iterdir()] == ["shapes.h"]


def test_a_shipped_model_is_found_by_its_name(tmp_path: Path):
    path = tmp_path / "a-b.h"
    done = json.loads(succeed("export", "pointnet-vanilla-shapes", "--c-array", "-o", path, "--json"))
    content = (shipped.FOLDER / "pointnet-vanilla-shapes.bpn").read_bytes()
    assert done == {"file": str(path), "array": "a_b_bpn", "bytes": len(content)}
    assert bytes_of(path) == content


def test_every_file_name_gives_a_c_identifier():
    for name in ("model.h", "int.h", "3d.h", "a b-c.d.h", "größe.h", "*/.h", ".h"):
        assert re.fullmatch(r"[A-Za-z_][0-9A-Za-z_]*_bpn", array_name(Path(name)))


@pytest.mark.parametrize(("compiler", "language"), [("CC", "c"), ("CXX", "c++")])
def test_a_program_with_the_array_gives_the_logits_of_python(
    header: Path, run_tool: Path, tmp_path: Path, compiler: str, language: str
):
    source = tmp_path / "main.c"
    source.write_text(PROGRAM)
    command = os.environ.get(compiler) or {"CC": "cc", "CXX": "c++"}[compiler]
    assert shutil.which(command.split()[0])
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{header.parent}", f"-I{ROOT / 'core' / 'include'}", "-x", language]
    libraries = ["-x", "none", run_tool.parent / "libbipointnet.a", "-lstdc++", "-lm", "-pthread"]
    subprocess.run([*command.split(), *flags, source, *libraries, "-o", tmp_path / "main"], check=True)
    cloud = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    printed = subprocess.run([tmp_path / "main"], input=cloud.tobytes(), capture_output=True, check=True).stdout
    expected = bipointnet.load(MODEL).logits(cloud)
    assert np.frombuffer(printed, np.float32).tobytes() == expected.tobytes()
