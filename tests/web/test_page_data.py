"""What the page embeds, without a browser."""

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
from scan_data import Tile, write_las

from bipointnet.data.clouds import read
from bipointnet.web.page import page_bytes


def test_a_sample_that_only_python_reads_keeps_its_columns(tmp_path: Path):
    tile = Tile(0, 300)
    write_las(tmp_path / "a.laz", tile, colors=True)
    page = page_bytes(["pointnet2-rooms"], [tmp_path / "a.laz"]).decode()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    (sample,) = json.loads(found[1])["samples"]
    (tmp_path / "b.ply").write_bytes(gzip.decompress(base64.b64decode(sample["content"])))
    before, after = read(tmp_path / "a.laz"), read(tmp_path / "b.ply")
    assert sample["name"] == "a.laz.ply"
    assert np.array_equal(after.points, before.points)
    assert before.colors is not None
    assert after.colors is not None
    assert np.array_equal(after.colors, before.colors)
    assert set(after.fields) == set(before.fields)
    assert np.array_equal(after.fields["intensity"], tile.intensity)
    assert np.array_equal(after.fields["classification"], tile.codes)
