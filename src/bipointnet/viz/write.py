"""Write all files of one labeled cloud: PLY, NPY, a page (HTML), a picture (PNG), and a copy of a LAS file."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from bipointnet.data.clouds import LAS, Cloud
from bipointnet.data.las_files import classified_copy
from bipointnet.data.scan_files import OUTPUT
from bipointnet.errors import UserError
from bipointnet.extras import installed
from bipointnet.viz import labeled

SUFFIXES = (".ply", ".npy", ".html", ".png")
LONGEST_NAME = 250  # bytes; with the suffix, as long as a name can be


def output_files(out: Path | None, cloud_file: Path, sources: list[Path], las: bool = False) -> list[Path]:
    """The files to write, one per suffix; UserError if one of them is a folder, or would replace a file.

    Files that an earlier labeling wrote are replaced: its page is among them.

    Args:
        out: their common name, with or without one of their suffixes, or a folder to write them to; by default the name
            of the cloud's file with "-labels", in the current folder.
        cloud_file: the file that the cloud was read from.
        sources: files that were read and must not be overwritten.
        las: also a copy of the cloud's file, LAS or LAZ, with the labels as its classification; it is the last one.
    """
    default = f"{cloud_file.stem}{OUTPUT}"
    stem = out or Path(default)
    if len(os.fsencode(stem.name)) <= LONGEST_NAME and stem.is_dir():
        stem = stem / default
    if not stem.name or len(os.fsencode(stem.name)) > LONGEST_NAME:
        raise UserError(
            f"--out is '{stem}'; expected the name of the files to write, without suffix, {LONGEST_NAME} bytes at most"
        )
    if stem.suffix.lower() in (*SUFFIXES, *LAS):
        stem = stem.with_suffix("")
    suffixes = (*SUFFIXES, cloud_file.suffix.lower()) if las else SUFFIXES
    files = [stem.with_name(stem.name + suffix) for suffix in suffixes]
    for file in files:
        if file.is_dir():
            raise UserError(f"{file}: a folder where a file should be written; choose another name with -o")
        if any(source.exists() and file.resolve() == source.resolve() for source in sources):
            raise UserError(f"{file}: an input file, which would be overwritten; choose another name with -o")
    there = [file for file in files if file.exists()]
    if there and not labeled.is_page(files[SUFFIXES.index(".html")]):
        raise UserError(
            f"{there[0]}: is there already, and was not written by an earlier labeling; expected a new name; choose "
            "another one with -o"
        )
    return files


def in_file_order(labels: np.ndarray, cloud: Cloud) -> np.ndarray:
    """Labels (N,) of a cloud's points as one label per point of its file, -1 for points that were left out."""
    if cloud.kept is None:
        return labels
    every = np.full(len(labels) + cloud.dropped, -1, np.int64)
    every[cloud.kept] = labels
    return every


def write_labeled(
    files: list[Path],
    cloud: Cloud,
    labels: np.ndarray,
    classes: list[str],
    title: str,
    up: str,
    codes: Sequence[int] | None = None,
    las: Path | None = None,
) -> list[Path]:
    """Write a cloud with labels (N,) to the files of `output_files`, all or none; returns those written.

    The .npy has one label per point of the file the cloud was read from, -1 for points that were left out. The picture
    is not written if matplotlib is not installed.

    codes: the label of each class in the PLY, the .npy and the copy; default: its number. las: the cloud's file, for a
    copy of it with the labels as its classification.
    """
    in_file = in_file_order(labels, cloud)
    numbers = np.array(range(len(classes)) if codes is None else codes)
    points = cloud.points
    if any(cloud.origin):
        points = points.astype(np.float64) + cloud.origin
    ply, npy, html, png = files[: len(SUFFIXES)]
    contents: dict[str | Path, bytes] = {
        ply: labeled.ply_bytes(points, labels, classes, codes),
        npy: labeled.npy_bytes(np.append(numbers, -1)[in_file]),
        html: labeled.html_bytes(points, labels, classes, title, up=up),
    }
    if installed("matplotlib"):
        contents[png] = labeled.png_bytes(points, labels, classes, up=up)
    written = [Path(file) for file in contents]
    copy = nullcontext() if las is None else classified_copy(las, files[-1], np.append(numbers, 0)[in_file])  # 0: never
    with copy:  # which fails first if the file is damaged, and replaces a file last
        labeled.write(contents)
    return [*written, files[-1]] if las is not None else written
