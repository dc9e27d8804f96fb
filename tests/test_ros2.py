"""examples/ros2: the points of ROS messages, as `rosbags` writes and reads them, and what the node answers."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

import bipointnet
from bipointnet.data.shapes import held_out

FOLDER = Path(__file__).parents[1] / "examples" / "ros2"
sys.path.insert(0, str(FOLDER))
from classify_node import classify  # noqa: E402  # pyright: ignore[reportMissingImports]
from pointcloud2 import points_of  # noqa: E402  # pyright: ignore[reportMissingImports]

STORE = get_typestore(Stores.ROS2_HUMBLE)
NAME = "sensor_msgs/msg/PointCloud2"
TYPES = {"f4": 7, "f8": 8, "i2": 3, "i4": 5}


def message(points: np.ndarray, height=1, kind="f4", big=False, before=0, pad=0) -> Any:
    """A message after it was written and read again; `before` bytes precede x, and `pad` bytes end each row."""
    order = ">" if big else "<"
    step = before + 3 * np.dtype(kind).itemsize + 4
    offsets = [before + i * np.dtype(kind).itemsize for i in range(3)]
    point = np.dtype({"names": list("xyz"), "formats": [order + kind] * 3, "offsets": offsets, "itemsize": step})
    cloud = np.zeros(len(points), point)
    for column, axis in enumerate("xyz"):
        cloud[axis] = points[:, column]
    width = len(points) // height
    rows = np.full((height, width * step + pad), 255, np.uint8)
    rows[:, : width * step] = cloud.view(np.uint8).reshape(height, width * step)
    types: dict[str, Any] = dict(STORE.types)
    fields = [types["sensor_msgs/msg/PointField"]("xyz"[i], offsets[i], TYPES[kind], 1) for i in range(3)]
    header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](0, 0), "map")
    made = types[NAME](header, height, width, fields, big, step, rows.shape[1], rows.reshape(-1), True)
    return STORE.deserialize_cdr(STORE.serialize_cdr(made, NAME), NAME)


@given(st.sampled_from(list(TYPES)), st.booleans(), st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 2, 5]))
def test_every_layout_gives_the_points(kind, big, before, pad, height):
    points = np.random.default_rng(0).integers(-500, 500, (10, 3)).astype(np.float32)
    found = points_of(message(points, height, kind, big, before, pad))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, points)


def test_points_without_a_return_are_left_out():
    points = np.ones((4, 3), np.float32)
    points[1, 2], points[2, 0] = np.nan, np.inf
    assert points_of(message(points)).shape == (2, 3)


def test_a_message_that_is_no_cloud_gets_one_sentence():
    cut = message(np.ones((4, 3), np.float32))
    cut.data = cut.data[:-1]
    with pytest.raises(ValueError, match=r"63 bytes in rows of 64; expected 1 rows of 4 points"):
        points_of(cut)
    flat = message(np.ones((4, 3), np.float32))
    flat.fields = flat.fields[:2]
    with pytest.raises(ValueError, match="the fields x, y; expected x, y and z"):
        points_of(flat)


def test_the_node_answers_what_the_command_line_predicts():
    cloud = held_out(7, 1024)[0].astype(np.float32)
    model = bipointnet.load("local-small-modelnet40")
    assert classify(model, points_of(message(cloud)), "z").startswith("chair ")
    assert not classify(model, points_of(message(cloud)), "y").startswith("chair ")
