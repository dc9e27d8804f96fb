"""A ROS 2 node that classifies every point cloud of a topic.

    python3 classify_node.py --ros-args -r points:=/camera/depth/points -p model:=local-small-modelnet40 -p up:=z

It reads sensor_msgs/PointCloud2 from `points` and writes the class and its probability as std_msgs/String to `class`.
The cloud must hold one object alone: cut it out of the scene before.
"""

import numpy as np
from pointcloud2 import points_of

import bipointnet
from bipointnet.data.up_axis import rotate_up


def classify(model: bipointnet.Model, points: np.ndarray, up: str) -> str:
    """The class of points (N, 3) in which the axis `up` points up, with its probability."""
    found = model.predict(rotate_up(points, up, model.manifest["training"].get("up") or up))
    return f"{found.names} {100 * found.probabilities.max():.1f} %"


def main() -> None:
    import rclpy
    from rclpy.node import Node
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import PointCloud2
    from std_msgs.msg import String

    class Classifier(Node):
        def __init__(self) -> None:
            super().__init__("bipointnet")
            self.model = bipointnet.load(self.declare_parameter("model", "local-small-modelnet40").value)
            self.up = self.declare_parameter("up", "z").value
            self.answers = self.create_publisher(String, "class", 10)
            self.create_subscription(PointCloud2, "points", self.answer, qos_profile_sensor_data)

        def answer(self, message: PointCloud2) -> None:
            points = points_of(message)
            if len(points):
                self.answers.publish(String(data=classify(self.model, points, self.up)))

    rclpy.init()
    rclpy.spin(Classifier())


if __name__ == "__main__":
    main()
