"""Many files: classify or label folders of any size, on all cores of this machine or on a Ray cluster.

    bipointnet.scale.predict(files, "local-small-modelnet40", out="results")             # Parquet, one row per cloud
    bipointnet.scale.segment(tiles, "tiles.bpn", out="labeled", engine="ray")            # one labeled file per tile

`Classify` and `LabelFiles` are the classes that do the work; give them to `map_batches` of your own Ray data sets.

May import: data, errors, evaluation, extras, files, runtime, shipped, viz. Never torch.
"""

from bipointnet.scale.jobs import Job, Outcome, predict, segment
from bipointnet.scale.work import Classify, LabelFiles

__all__ = ["Classify", "Job", "LabelFiles", "Outcome", "predict", "segment"]
