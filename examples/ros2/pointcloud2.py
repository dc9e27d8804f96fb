"""Points of a ROS message, without ROS: anything with the fields of sensor_msgs/PointCloud2."""

from typing import Any

import numpy as np

# sensor_msgs/PointField: datatype -> NumPy
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}


def points_of(message: Any) -> np.ndarray:  # (N, 3) float32
    """The points of a sensor_msgs/PointCloud2 that have a return: x, y and z are finite.

    Rows may be padded, fields may have any type, order and place, and the bytes either order.
    """
    fields = {field.name: field for field in message.fields}
    missing = [axis for axis in "xyz" if axis not in fields]
    if missing:
        raise ValueError(f"PointCloud2 has the fields {', '.join(fields) or 'none'}; expected x, y and z")
    order = ">" if message.is_bigendian else "<"
    point = np.dtype(
        {
            "names": list("xyz"),
            "formats": [order + _TYPES[fields[axis].datatype] for axis in "xyz"],
            "offsets": [fields[axis].offset for axis in "xyz"],
            "itemsize": message.point_step,
        }
    )
    expected = message.height * message.row_step
    content = np.frombuffer(message.data, np.uint8)
    if len(content) < expected or message.row_step < message.width * message.point_step:
        raise ValueError(
            f"PointCloud2 has {len(content)} bytes in rows of {message.row_step}; expected {message.height} rows of "
            f"{message.width} points with {message.point_step} bytes each"
        )
    rows = content[:expected].reshape(message.height, message.row_step)[:, : message.width * message.point_step]
    cloud = np.ascontiguousarray(rows).reshape(-1).view(point)
    points = np.stack([cloud[axis].astype(np.float32) for axis in "xyz"], axis=1)
    return points[np.isfinite(points).all(axis=1)]
