"""A packed model as a C header, for programs that have no files: the bytes as a constant array, and their number."""

import re
from pathlib import Path

from bipointnet.errors import UserError
from bipointnet.files import write_beside
from bipointnet.runtime.model import Model

_BYTES_PER_LINE = 24
_TEMPLATE = """\
/* A packed model: task {task}, {classes} classes, {size:,} bytes. Written by `bipointnet export --c-array`.
 *
 *     bipointnet_load_bytes({name}, {name}_size, &model);
 */
#ifndef {guard}_H
#define {guard}_H

enum {{ {name}_size = {size} }};

static const unsigned char {name}[{name}_size] __attribute__((aligned(64))) = {{
{lines}
}};

#endif
"""


def array_name(path: Path) -> str:
    """The name of the array in a header: its file name with `_bpn`, as a C identifier.

    >>> array_name(Path("local-tiny.h")), array_name(Path("3d.h"))
    ('local_tiny_bpn', 'model_3d_bpn')
    """
    name = re.sub(r"[^0-9A-Za-z_]", "_", path.stem) + "_bpn"
    return f"model_{name}" if name[0].isdigit() else name


def write_c_array(model: Model, content: bytes, path: Path) -> str:
    """Write the bytes of a loaded model as a C header; returns the name of the array.

    Examples:
        >>> file = Path("chairs.bpn")
        >>> write_c_array(bipointnet.load(file), file.read_bytes(), Path("chairs.h"))  # doctest: +SKIP
        'chairs_bpn'
    """
    if path.suffix != ".h":
        raise UserError(f"{path}: not the name of a C header; expected a name that ends in .h, like {path.stem}.h")
    name = array_name(path)
    rows = (content[start : start + _BYTES_PER_LINE] for start in range(0, len(content), _BYTES_PER_LINE))
    text = _TEMPLATE.format(
        task=model.task,
        classes=len(model.classes),
        size=len(content),
        name=name,
        guard=name.upper(),
        lines="\n".join("".join(f"{byte}," for byte in row) for row in rows),
    )
    write_beside(path, text.encode())
    return name
