"""Points that cover a cube evenly: the Sobol sequence, the same every time."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["sobol"]


@lru_cache(maxsize=8)
def sobol(dimension: int, n: int) -> NDArray[np.float64]:
    """Return the first points of the Sobol sequence, unscrambled: as many as the next power of two after n.

    Parameters
    ----------
    dimension : int
        That of the cube.
    n : int
        Number of points that are needed, at least 1.

    Returns
    -------
    ndarray of shape (points, dimension)
        Points in [0, 1), of which the first is 0. Nobody writes to it.
    """
    from scipy.stats import qmc  # SciPy takes longer to import than all of dfprivacy

    points: NDArray[np.float64] = qmc.Sobol(dimension, scramble=False).random_base2(math.ceil(math.log2(n)))
    points.setflags(write=False)
    return points
