"""The architecture of the C++ core: every file of core/src, its folder, and what it may include.

    clouds   a file with a cloud -> its points; knows nothing of networks
    format   bytes -> a checked network; knows nothing of how it runs
    kernels  one table of functions, one file per instruction set; knows nothing of networks
    search   farthest points, neighbors, densities, interpolation on floats; knows networks only by their fields
    engine   plans and runs a network with the kernels
    scan     clouds of any size: samples and blocks for a network
    api.cpp, python.cpp  the two ways in

A new file needs a row here.
"""

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[1] / "core"
SOURCE = CORE / "src"

FILES = {
    "": {"api.cpp", "python.cpp"},
    "clouds": {
        "cloud.h",
        "columns.cpp",
        "columns.h",
        "fields.cpp",
        "fields.h",
        "finish.cpp",
        "finish.h",
        "floats.cpp",
        "formats.h",
        "las.cpp",
        "lines.cpp",
        "lines.h",
        "npy.cpp",
        "obj.cpp",
        "off.cpp",
        "pcd.cpp",
        "ply.cpp",
        "polygons.h",
        "ptx.cpp",
        "read.cpp",
        "read.h",
        "scalars.cpp",
        "scalars.h",
        "stl.cpp",
        "text.cpp",
    },
    "numbers": {"decimal.cpp", "decimal.h"},
    "format": {
        "binding.cpp",
        "binding.h",
        "bits.cpp",
        "bits.h",
        "block_layout.cpp",
        "block_layout.h",
        "checksum.cpp",
        "checksum.h",
        "cost.cpp",
        "cost.h",
        "fields.cpp",
        "fields.h",
        "file.cpp",
        "file.h",
        "format.cpp",
        "json.cpp",
        "json.h",
        "network.cpp",
        "network.h",
        "operation_fields.cpp",
        "operation_fields.h",
        "operations.cpp",
        "operations.h",
        "program.cpp",
        "program.h",
        "saturating.h",
        "tensors.cpp",
        "tensors.h",
        "text.cpp",
        "text.h",
    },
    "kernels": {
        "avx2.cpp",
        "avx512.cpp",
        "body.h",
        "body_counts.h",
        "body_elements.h",
        "body_features.h",
        "body_floats.h",
        "body_groups.h",
        "body_search.h",
        "body_slices.h",
        "dispatch.cpp",
        "dispatch.h",
        "groups_of_words.h",
        "kernels.h",
        "keys_portable.h",
        "neon.cpp",
        "portable.cpp",
        "search_kernels.h",
        "squares_portable.h",
        "squares_sse.h",
        "wasm.cpp",
    },
    "search": {
        "ball.cpp",
        "blocks.cpp",
        "blocks.h",
        "candidates.cpp",
        "candidates.h",
        "density.cpp",
        "farthest.cpp",
        "features.cpp",
        "features.h",
        "grid.cpp",
        "grid.h",
        "interpolate.cpp",
        "nearest.cpp",
        "nearest_keys.cpp",
        "nearest_keys.h",
        "order.cpp",
        "order.h",
        "points.cpp",
        "points.h",
        "problem.cpp",
        "problem.h",
        "search.h",
        "searches.cpp",
        "smallest.cpp",
        "smallest.h",
    },
    "engine": {
        "aligned.h",
        "bitsliced.cpp",
        "bitsliced.h",
        "block.cpp",
        "block.h",
        "block_elements.cpp",
        "block_load.cpp",
        "block_pools.cpp",
        "buffers.cpp",
        "cloud.cpp",
        "cloud.h",
        "code_set.cpp",
        "code_set.h",
        "codes.cpp",
        "delta.cpp",
        "delta.h",
        "elements.cpp",
        "fusion.cpp",
        "kept.cpp",
        "kept.h",
        "layout.cpp",
        "layout.h",
        "model.cpp",
        "model.h",
        "plan.cpp",
        "plan.h",
        "pooled.cpp",
        "pooled.h",
        "prepare.cpp",
        "run.cpp",
        "run.h",
        "schedule.cpp",
        "state.h",
        "storage.h",
        "threads.h",
        "together.cpp",
        "together.h",
        "vector_ops.cpp",
        "vector_ops.h",
        "workspace.cpp",
        "workspace.h",
    },
    "scan": {
        "blocks.cpp",
        "blocks.h",
        "label.cpp",
        "label.h",
        "sample.cpp",
        "sample.h",
        "shuffle.cpp",
        "shuffle.h",
    },
}
MAY_INCLUDE = {
    "numbers": {"numbers"},
    "clouds": {"clouds", "numbers"},
    "format": {"format", "numbers"},
    "kernels": {"kernels"},
    "search": {"format", "kernels", "engine", "search"},
    "engine": {"format", "kernels", "search", "engine"},
    "scan": {"format", "engine", "scan"},
    "": {"clouds", "format", "kernels", "engine", "scan", "bipointnet.h"},
}
# Compiled once per instruction set. An inline function of the standard library, compiled with the flags of one
# instruction set, could be the copy that the linker keeps for all; <cstdint> has types only.
PER_ISA = {
    "portable.cpp",
    "avx2.cpp",
    "avx512.cpp",
    "neon.cpp",
    "body.h",
    "body_counts.h",
    "body_elements.h",
    "body_features.h",
    "body_floats.h",
    "body_groups.h",
    "body_search.h",
    "body_slices.h",
    "groups_of_words.h",
    "kernels.h",
    "keys_portable.h",
    "search_kernels.h",
    "squares_portable.h",
    "squares_sse.h",
    "wasm.cpp",
}
PER_ISA_SYSTEM = {"cstdint", "immintrin.h", "arm_neon.h", "emmintrin.h", "wasm_simd128.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)


def all_files():
    return [(folder, name) for folder, names in FILES.items() for name in sorted(names)]


def includes(path):
    """The project's own and the system's headers that a file includes."""
    found = INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [name for bracket, name in found if bracket == '"'], [name for bracket, name in found if bracket == "<"]


def test_every_file_of_the_core_is_listed():
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    listed = {f"{folder}/{name}".lstrip("/") for folder, name in all_files()}
    assert found == listed


@pytest.mark.parametrize(("folder", "name"), all_files())
def test_a_file_includes_only_what_its_folder_may(folder, name):
    own, _ = includes(SOURCE / folder / name)
    for header in own:
        assert (SOURCE / header).is_file() or (CORE / "include" / header).is_file(), f"{header} does not exist"
        where = header.split("/")[0]
        assert where in MAY_INCLUDE[folder], f"{folder}/{name} includes {header}, expected one of {MAY_INCLUDE[folder]}"


def test_search_uses_only_the_tools_of_the_engine():
    used = {header for name in FILES["search"] for header in includes(SOURCE / "search" / name)[0]}
    assert {header for header in used if header.startswith("engine/")} <= {
        "engine/aligned.h",
        "engine/cloud.h",
        "engine/threads.h",
    }


@pytest.mark.parametrize("name", sorted(PER_ISA))
def test_files_of_an_instruction_set_use_no_standard_library(name):
    _, system = includes(SOURCE / "kernels" / name)
    assert set(system) <= PER_ISA_SYSTEM
    assert "std::" not in re.sub(r"std::u?int\d+_t|std::size_t", "", (SOURCE / "kernels" / name).read_text())


def test_the_tool_runs_networks_through_the_c_api():
    tools = CORE / "tools"
    for path in tools.iterdir():
        folders = {header.split("/")[0] for header in includes(path)[0] if not (tools / header).is_file()}
        assert folders <= {"bipointnet.h", "clouds", "format", "scan"}, path.name


def test_only_the_binding_knows_nanobind():
    users = [
        f"{folder}/{name}"
        for folder, name in all_files()
        if any("nanobind" in h for h in includes(SOURCE / folder / name)[1])
    ]
    assert users == ["/python.cpp"]


def test_one_header_uses_threads():
    """With BIPOINTNET_NO_THREADS it has a version without them, so a microcontroller can run the rest."""
    headers = {"thread", "mutex", "shared_mutex", "condition_variable", "future"}
    users = [
        f"{folder}/{name}"
        for folder, name in all_files()
        if headers & set(includes(SOURCE / folder / name)[1])
        or re.search(r"\bthread_local\b", (SOURCE / folder / name).read_text())
    ]
    assert users == ["engine/threads.h"]


def test_the_tests_of_the_core_mirror_its_folders():
    folders = {path.parent.relative_to(CORE / "tests").as_posix() for path in (CORE / "tests").rglob("test_*.cpp")}
    assert folders <= {".", "clouds", "format", "kernels", "search", "engine", "scan"}
