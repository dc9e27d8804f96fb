"""The flash and RAM that a packed model takes on a Cortex-M7, measured under qemu with the program examples/cortex-m7.

    python benchmarks/cortex_m7.py [--model NAME] [-o benchmarks/results/cortex-m7.json]

Flash: the program with the library and the model. RAM: static data, and the high-water marks of heap and stack; the
model is checked with its golden vector, then predicts one cloud of 1024 points.

Needs cmake, gcc-arm-none-eabi, libstdc++-arm-none-eabi-newlib and qemu-system-arm.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bipointnet.files import write_beside
from bipointnet.runtime.c_array import write_c_array
from bipointnet.runtime.model import load
from bipointnet.shipped import locate

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "cortex-m7"
QEMU = ["qemu-system-arm", "-M", "mps2-an500", "-nographic", "-monitor", "none", "-serial", "none"]
QEMU += ["-chardev", "stdio,id=out", "-semihosting-config", "enable=on,chardev=out"]
SECONDS = 300


def call(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(name: str) -> Path:
    """The program with the shipped model `name`."""
    file = locate(Path(name))
    write_c_array(load(file), file.read_bytes(), BUILD / "model.h")
    cmake = shutil.which("cmake", path=Path(sys.executable).parent) or "cmake"
    toolchain = ROOT / "core" / "cmake" / "cortex-m7.cmake"
    options = [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=MinSizeRel"]
    call(cmake, "-S", ROOT / "examples" / "cortex-m7", "-B", BUILD, *options)
    call(cmake, "--build", BUILD, "-j", "2")
    return BUILD / "classify-cloud"


def run(program: Path) -> tuple[str, dict[str, int]]:
    """What the program prints under qemu, and the bytes of memory that it used."""
    printed = call(*QEMU, "-kernel", program)
    found = re.fullmatch(r"(.*\n)memory: static (\d+), heap (\d+), stack (\d+) bytes\n", printed, re.DOTALL)
    assert found, printed
    return found[1], dict(zip(("static", "heap", "stack"), map(int, found.groups()[1:]), strict=True))


def measure(name: str) -> dict[str, Any]:
    """Bytes of flash and RAM."""
    program = build(name)
    text, data, *_ = map(int, call("arm-none-eabi-size", program).splitlines()[1].split()[:3])
    printed, memory = run(program)
    return {
        "model": name,
        "model_bytes": locate(Path(name)).stat().st_size,
        "flash_bytes": text + data,
        "ram_bytes": sum(memory.values()),
        "ram": memory,
        "label": printed.splitlines()[0],
        "compiler": call("arm-none-eabi-g++", "--version").splitlines()[0],
        "emulator": call("qemu-system-arm", "--version").splitlines()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="local-tiny-modelnet40", help="name of a shipped model")
    parser.add_argument("-o", "--out", type=Path, help="write the result to this file too")
    options = parser.parse_args()
    text = json.dumps(measure(options.model), indent=2)
    print(text)
    if options.out:
        write_beside(options.out, f"{text}\n".encode())


if __name__ == "__main__":
    main()
