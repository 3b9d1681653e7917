r"""Noise of the cube: the K-norm mechanism for vectors of which every coordinate moves by the same amount at most.

P(x) is proportional to exp(-max|x_i| / b) on whole numbers. A vector whose coordinates all move by s at most is
released at epsilon = s/b, with a standard deviation of b √((d+1)(d+2)/3) a coordinate; independent Laplace noise
would need b √2 d [1]_.

References
----------
.. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._privacy.samplers import Sampler

__all__ = ["cube_noise"]


def cube_noise(dimension: int, scale: float, sampler: Sampler) -> NDArray[np.int64]:
    r"""Draw one vector of the noise of the cube, exactly.

    Parameters
    ----------
    dimension : int
        Number of coordinates d.
    scale : float
        b, in grid steps.
    sampler : Sampler
        What draws Laplace noise and uniform whole numbers.

    Returns
    -------
    ndarray of int64, shape (d,)
        The noise.

    Notes
    -----
    With q = exp(-1/b), let r have probabilities proportional to (2r+1)^d q^r, and x be uniform among the (2r+1)^d
    points with max|x_i| ≤ r. Then P(x) is proportional to the sum of q^r over r ≥ max|x_i|: to q^max|x_i|.

    A sum of d+1 geometric variables has probabilities proportional to C(r+d, d) q^r. It is accepted as r with
    probability Π (2r+1) / (2r+2i) over i = 1, …, d, a product of fractions below 1, which leaves (2r+1)^d q^r. A
    Laplace variable z is made geometric as z if z ≥ 0, else -z-1: both of probability proportional to q^k.
    """
    while True:
        drawn = sampler.laplace(np.zeros(dimension + 1, dtype=np.int64), scale)
        r = sum(np.where(drawn >= 0, drawn, -drawn - 1).tolist())  # of Python's integers, which have no end
        if all(sampler.below(2 * (r + i)) < 2 * r + 1 for i in range(1, dimension + 1)):
            return np.array([sampler.below(2 * r + 1) - r for _ in range(dimension)], dtype=np.int64)
