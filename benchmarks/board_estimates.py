"""How long the pooled layer of a 1-bit PointNet takes on ARM boards, by static analysis: no board is needed.

    python benchmarks/board_estimates.py MODEL [--points 1024]

llvm-mca gives the cycles of the inner loop of the NEON kernel, which handles two outputs of the layer for one block of
128 codes. How often it runs depends on the cloud: on its number of distinct codes, and on how soon outputs fire. This
is counted on built-in objects with a packed PointNet without T-Nets. The pooled layer takes most of a prediction.

Needs g++-aarch64-linux-gnu and llvm-mca. Writes benchmarks/results/board-estimates.json.
"""

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

import numpy as np

from bipointnet import _core
from bipointnet.data.shapes import held_out
from bipointnet.files import write_beside
from bipointnet.runtime import reference
from bipointnet.runtime.model import Model, load

HERE = Path(__file__).parent
SOURCES = HERE.parent / "core" / "src"
RESULT = HERE / "results" / "board-estimates.json"
COMPILER = "aarch64-linux-gnu-g++"
FLAGS = ["-O3", "-DNDEBUG", "-std=c++17", "-fPIC", "-ffp-contract=off", "-DBIPOINTNET_NEON"]
BLOCK = 128  # codes per register
OUTPUTS_PER_LOOP = 2
CLOUDS = 64
ITERATIONS = 50  # of the loop, which llvm-mca simulates
TRAINING = ("dataset", "model", "method", "pool", "points", "epochs")
BOARDS = {"cortex-a53": 1.2e9, "cortex-a72": 1.5e9}  # hertz, as in the paper's Raspberry Pi 3B and 4B


def inner_loop() -> list[str]:
    """The instructions of the loop of `bilinear_pool` for 128 inputs: the longest one from `rbit` to a jump back."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "neon.o"
        command = [COMPILER, *FLAGS, f"-I{SOURCES}", "-c", SOURCES / "kernels" / "neon.cpp", "-o", compiled]
        subprocess.run(command, check=True)
        dump = ["aarch64-linux-gnu-objdump", "-d", "-C", "--no-show-raw-insn", compiled]
        text = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    function = re.search(r"<[^<>\n]*::bilinear_pool\([^<>\n]*\)>:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
    assert function, "the function is not inlined"
    lines = [line.split("\t") for line in function[1].splitlines()]
    places = {line[0].strip(" :"): i for i, line in enumerate(lines)}
    loops: list[tuple[int, int]] = []
    for i, line in enumerate(lines):
        target = re.search(r"\b([0-9a-f]+) <", line[-1])
        if line[1].startswith(("b.", "cb", "b", "tb")) and line[1] != "bl" and target:
            start = places.get(target[1], i)
            if start < i:
                loops.append((start, i))
    # The innermost loops: those without another one inside.
    inner = [(a, b) for a, b in loops if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)]
    start, end = max(inner, key=lambda loop: loop[1] - loop[0])
    instructions = [re.sub(r"<.*|//.*", "", "\t".join(line[1:])) for line in lines[start:end]]
    return [each for each in instructions if not re.match(r"(b\.|b\t|cb|tb|nop)", each)]


def cycles_per_output(loop: list[str], cpu: str) -> float:
    """Cycles of the inner loop per output and block."""
    command = ["llvm-mca", "-mtriple=aarch64", f"-mcpu={cpu}", f"-iterations={ITERATIONS}"]
    text = subprocess.run(command, input="\n".join(loop), check=True, capture_output=True, text=True).stdout
    found = re.search(r"Total Cycles:\s+(\d+)", text)
    assert found, text
    return int(found[1]) / ITERATIONS / OUTPUTS_PER_LOOP


def visits(model: Model, tensors: Mapping[str, np.ndarray], cloud: np.ndarray) -> tuple[int, int]:
    """The distinct codes of a cloud (N, 3), and how many outputs are computed in all blocks of these codes."""
    pool = next(operation for operation in model.operations() if operation.op == "bilinear_pool")
    codes = model.trace(cloud)[pool.operands[0]]  # (N, K) bits
    _, first = np.unique(codes, axis=0, return_index=True)
    rows = codes[np.sort(first)].astype(np.int32)  # in the order in which the runtime finds them
    weight, line = tensors[f"{pool.name}.weight"], tensors[f"{pool.name}.line"]
    bits = np.unpackbits(weight.view(np.uint8), axis=1, bitorder="little")[:, : pool.inputs].astype(np.int32)  # (M, K)
    agreements = rows @ bits.T + (1 - rows) @ (1 - bits).T  # (d, M)
    thresholds = np.ceil(line[:, 0].astype(np.float64) + line[:, 1].astype(np.float64) * _core.delta(len(rows)))
    left, computed = (thresholds > 0) & (thresholds <= pool.inputs), 0
    for start in range(0, len(rows), BLOCK):
        computed += int(left.sum())
        left &= ~(agreements[start : start + BLOCK] >= thresholds).any(0)
    return len(rows), computed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--points", type=int, default=1024)
    options = parser.parse_args()
    model, tensors = load(options.model), reference.read(options.model).tensors
    counted = [visits(model, tensors, held_out(i, options.points)[0]) for i in range(CLOUDS)]
    codes, computed = (mean(column) for column in zip(*counted, strict=True))
    loop = inner_loop()
    boards = {}
    for cpu, hertz in BOARDS.items():
        cycles = cycles_per_output(loop, cpu)
        boards[cpu] = {
            "cycles_per_output": round(cycles),
            "hertz": hertz,
            "ms": round(1e3 * cycles * computed / hertz, 2),
        }
    llvm = subprocess.run(["llvm-mca", "--version"], check=True, capture_output=True, text=True).stdout
    gcc = subprocess.run([COMPILER, "--version"], check=True, capture_output=True, text=True).stdout
    report = {
        "points": options.points,
        "clouds": CLOUDS,
        "distinct_codes": round(codes, 1),
        "outputs_computed": round(computed, 1),
        "boards": boards,
        "compiler": gcc.splitlines()[0],
        "llvm": re.findall(r"LLVM version \S+", llvm)[0],
        "training": {key: model.manifest["training"][key] for key in TRAINING},
    }
    write_beside(RESULT, (json.dumps(report, indent=2) + "\n").encode())
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
