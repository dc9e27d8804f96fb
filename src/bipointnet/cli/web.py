"""The commands web and view: the page that runs models in a browser."""

import tempfile
import webbrowser
from pathlib import Path

import typer

from bipointnet import shipped
from bipointnet.cli.common import plain, print_line, require_packed
from bipointnet.errors import UserError

FIRST = "local-tiny-modelnet40"  # what the page uses at first


def web(
    folder: Path = typer.Option(..., "-o", "--out", help="Folder to write; the page is its index.html."),
    models: list[Path] = typer.Option(
        [], "--model", help="Packed model, or the name of a shipped one; may be repeated (default: all shipped ones)."
    ),
) -> None:
    """Write a page that classifies point clouds in a browser.

    The page is one file with the models inside and needs no server. Files that
    are dropped on it are not sent anywhere.

    Example: bipointnet web -o site
    """
    from bipointnet.web.page import write_page

    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file; expected the name of a folder to write")
    chosen = models or [Path(FIRST), *(Path(name) for name in shipped.names() if name != FIRST)]
    _require_packed(chosen)
    page = folder / "index.html"
    write_page(page, chosen)
    print_line(f"{plain(page)}: {page.stat().st_size:,} bytes")


def view(
    files: list[Path] = typer.Argument(metavar="FILE...", help="Clouds or meshes."),
    model: Path = typer.Option(Path(FIRST), "--model", help="Packed model, or the name of a shipped one."),
) -> None:
    """Open a page with a point cloud and the predictions of a model.

    Example: bipointnet view scan.ply --model local-small-modelnet40
    """
    from bipointnet.web.page import write_page

    for file in files:
        if not file.is_file():
            what = "a folder" if file.is_dir() else "no such file"
            raise UserError(f"{file}: {what}; expected a cloud or a mesh; name files")
    _require_packed([model])
    page = Path(tempfile.mkdtemp(prefix="bipointnet-")) / "view.html"
    write_page(page, [model], files)
    print_line(plain(page))
    if not webbrowser.open(page.as_uri()):
        raise UserError("no browser was found; open the file above in one")


def _require_packed(models: list[Path]) -> None:
    for model in models:
        require_packed(shipped.locate(model))
