"""The architecture: the list of modules, the allowed imports, and the cost of an import."""

import ast
import functools
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import bipointnet

ROOT = Path(bipointnet.__file__).parent
# All modules. Add a new module here.
MODULES = {
    "": "__init__ __main__ config delta demo errors extras files",
    "analysis": "__init__ doubling figures runs study theory",
    "cli": "__init__ analyze bench common demo eval export inspect models predict reproduce segment sweep train verify "
    "web",
    "convert": "__init__ binarize check decide generators graph layers methods pools rebuild record report sites "
    "substitute trace zero_one",
    "data": "__init__ arrays blocks cache child_process class_tables cloud_facts clouds corruptions dataset folder "
    "furniture generated gltf_files houses las_files las_header las_parts las_units library_files listing manifest "
    "modelnet normalize objects outdoors own parsed ply_files ply_header ply_parts point_labels published "
    "rays reading rooms s3dis scan_choices scan_facts scan_files scan_libraries scan_survey scanobjectnn scans "
    "shapenet_part shapes shuffle solids summary terrain town up_axis",
    "evaluation": "__init__ bench_torch evaluate from_file inputs inspection metrics model_file networks predictor "
    "probe robustness rounding scans segmentation truth unlike verify_torch",
    "models": "__init__ blueprint checkpoint dgcnn local pointcnn pointconv pointnet pointnet2 segmentation",
    "nn": "__init__ calibrate codes concat_linear conv cost distinct farthest_gpu fused_layer fused_pool geometry gpu "
    "grouped hooks init linear methods names nearest_gpu norm_gpu observe peak_gpu pools product scatter sign",
    "packing": "__init__ analysis axes bits container cost distances float64 fold graph group_search interpolation "
    "lower methods neighbors pack program read_gather read_graphs read_layers read_math read_products read_views "
    "reading record runs searches sizes values",
    "reproduce": "__init__ jobs report tables",
    "runtime": "__init__ bench c_array float_twin header label label_large model operations progress reference "
    "reference_ops reference_search samples sweep timed_process verify",
    "scale": "__init__ jobs local on_ray results work worker",
    "shipped": "__init__",
    "training": "__init__ augment capture compile_check cross_validation devices facts interrupts loop partial "
    "progress provenance random_state recipes repeat report resume_options run_folder scales schedule tasks teacher",
    "viz": "__init__ confusion curves demo_figure labeled palette picture render run_report sweep_files viewer write",
    "web": "__init__ page",
}
# The subsystems that each subsystem may import besides itself.
MAY_IMPORT = {
    "delta": "",
    "errors": "",
    "extras": "errors",
    "files": "",
    "config": "errors",
    "data": "_core errors extras files",
    "nn": "delta errors",
    "models": "config errors files nn",
    "convert": "errors nn",
    "shipped": "errors",
    "runtime": "_core data delta errors evaluation extras files shipped",
    "evaluation": "config data errors extras models nn packing runtime shipped",
    "training": "config data errors evaluation extras files models nn viz",
    "analysis": "data delta errors evaluation files models nn runtime",
    "packing": "_core config data delta errors files models nn runtime",
    "viz": "data errors extras files",
    "web": "data errors files runtime shipped viz",
    "demo": "config data evaluation models nn packing runtime training viz",
    "reproduce": "config errors files training",
    "scale": "data errors evaluation extras files runtime shipped viz",
    "cli": "analysis config data demo errors evaluation extras packing reproduce runtime scale shipped training viz "
    "web",
    # For type checkers; at run time, names are imported on first use.
    "__init__": "analysis config convert data errors models nn packing runtime",
    "__main__": "cli",
}
# Modules that work without PyTorch. A command imports PyTorch when it needs it.
NEVER_TORCH = {
    "": "__init__ __main__ config delta errors extras files",
    "analysis": "__init__ figures runs theory",
    "cli": MODULES["cli"],
    "data": MODULES["data"],
    "evaluation": "__init__ evaluate from_file inputs inspection metrics model_file predictor robustness scans "
    "segmentation truth unlike",
    "reproduce": MODULES["reproduce"],
    "runtime": MODULES["runtime"],
    "scale": MODULES["scale"],
    "shipped": MODULES["shipped"],
    "training": "__init__ facts interrupts recipes repeat resume_options",
    "viz": MODULES["viz"],
    "web": MODULES["web"],
}


def dotted(table: dict[str, str]) -> list[str]:
    return [f"{folder}.{name}".lstrip(".") for folder, names in table.items() for name in names.split()]


@functools.cache
def modules() -> dict[str, ast.Module]:
    paths = sorted(ROOT.rglob("*.py"))
    return {".".join(p.relative_to(ROOT).with_suffix("").parts): ast.parse(p.read_text()) for p in paths}


def imports(tree: ast.AST) -> set[str]:
    """Dotted names of everything that a module imports, at any level."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def top_level(tree: ast.Module) -> set[str]:
    return imports(ast.Module([n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))], []))


def test_every_module_is_listed():
    assert sorted(modules()) == sorted(dotted(MODULES))


def test_folders_are_subsystems_and_few_modules_are_top_level():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(MODULES) - {""}
    assert len(MODULES[""].split()) <= 8


@pytest.mark.parametrize("name", modules())
def test_a_subsystem_imports_only_allowed_subsystems(name):
    subsystem = name.split(".")[0]
    found = {i.split(".")[1] for i in imports(modules()[name]) if i.startswith("bipointnet.")} - {"__version__"}
    assert found <= {subsystem, *MAY_IMPORT[subsystem].split()}


@pytest.mark.parametrize("name", dotted(NEVER_TORCH))
def test_modules_for_machines_without_pytorch_do_not_import_it(name):
    assert not any(i.split(".")[0] in ("torch", "safetensors") for i in top_level(modules()[name]))


def package_imports(name: str) -> set[str]:
    """The modules of the package that a module imports, such as "runtime.model"."""
    found = {i.removeprefix("bipointnet.") for i in imports(modules()[name]) if i.startswith("bipointnet.")}
    return {i if i in modules() else i.rpartition(".")[0] for i in found} & set(modules())


def test_the_reference_shares_no_code_with_packing():
    """The reference checks what packing writes. Only `packing.pack` calls it, to compute the golden vector."""
    own = {"runtime.reference", "runtime.reference_ops", "runtime.reference_search"}
    for name in own:
        assert package_imports(name) <= own | {"delta", "errors", "runtime.header"}, name
    for name in dotted({"packing": MODULES["packing"]}):
        allowed = {"runtime.reference"} if name == "packing.pack" else set()
        assert {i for i in package_imports(name) if i.startswith("runtime")} <= allowed, name


def test_the_runtime_imports_no_pytorch_at_any_level():
    """Of `evaluation`, it imports only the metrics, which need numpy alone."""
    for name in dotted({"runtime": MODULES["runtime"]}):
        assert not any(i.split(".")[0] in ("torch", "safetensors") for i in imports(modules()[name])), name
        assert {i for i in package_imports(name) if i.startswith("evaluation")} <= {"evaluation.metrics"}, name


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in shown.stdout.split()}


def test_importing_the_package_is_fast_and_imports_no_torch():
    assert "torch" not in loaded_after("import bipointnet")
    assert "torch" not in loaded_after("import bipointnet.data, bipointnet.evaluation.metrics, bipointnet.cli")
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import bipointnet"], check=True)
        with_import = time.perf_counter() - started
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(with_import - (time.perf_counter() - started))
    assert min(times) < 0.3


floats = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=140), elements=floats))
def test_the_core_packs_the_signs_of_training(values):
    from bipointnet._core import pack_signs
    from bipointnet.nn import hard_sign

    words = pack_signs(values)
    rows, columns = values.shape
    assert words.shape == (rows, -(-columns // 64))
    bits = np.unpackbits(words.view(np.uint8).reshape(rows, words.shape[1] * 8), axis=1, bitorder="little")
    assert np.array_equal(bits[:, :columns], hard_sign(torch.from_numpy(values.copy())).numpy() > 0)
    assert not bits[:, columns:].any(), "padding bits are not zero"
