import numpy as np
from numpy.typing import NDArray

def pack_signs(values: NDArray[np.float32]) -> NDArray[np.uint64]: ...
