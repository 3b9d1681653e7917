r"""Row features: bounded maps from a row to a vector; noisy sums of the vectors answer nearly every question.

A row feature maps one cleaned row to a vector in :math:`\mathbb R^d`. Its *radius* in a norm is the largest
norm of such a vector, its *diameter* the largest distance of two of them. The sensitivity of the sum follows:

- ``add_remove``: the radius (one row more or less),
- ``replace_one``: the diameter (one row changes),
- ``replace_one`` on a view whose conditions look at private columns: the larger of the two (a row may change, or
  enter, or leave).

Every coordinate is rounded to a public binary grid before it is summed. Whole grid steps are added, so the sum is
exact: it does not depend on the order of the rows, on batches, threads or the engine. The rounding moves each
coordinate by half a step at most, and the sensitivity is charged for it. (`Outer` adds exact products, and rounds
their sum.)

A feature must be a pure function of its row. What a third party writes in `rows` is clipped to the radius it
declares, so a wrong claim costs accuracy, never privacy. A `diameter` that it states beside `rows` is its author's
proof: the core cannot enforce it. Its `rows` is given a `Batch`; `number` and `category` make the `Read` that says
how a column is read.
"""

from dfprivacy._table.batch import Batch, category, number
from dfprivacy._table.frames import Read
from dfprivacy.features.base import RowFeatures
from dfprivacy.features.bins import Bins
from dfprivacy.features.composed import Given, OneHot, Stack
from dfprivacy.features.fourier import Fourier, gaussian_frequencies
from dfprivacy.features.kernel import Kernel, Nystrom
from dfprivacy.features.moments import Beyond, Count, Moments
from dfprivacy.features.outer import Outer
from dfprivacy.features.product_kernel import ProductKernel, spread
from dfprivacy.features.weighted import Weighted

__all__ = [
    "Batch",
    "Beyond",
    "Bins",
    "Count",
    "Fourier",
    "Given",
    "Kernel",
    "Moments",
    "Nystrom",
    "OneHot",
    "Outer",
    "ProductKernel",
    "Read",
    "RowFeatures",
    "Stack",
    "Weighted",
    "category",
    "gaussian_frequencies",
    "number",
    "spread",
]
