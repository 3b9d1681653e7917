"""``view.kernel_message``: what one party says of its rows, on its own, to be compared elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dfprivacy import ArgumentError, Range, Release, mechanism
from dfprivacy.schema import as_probability
from dfprivacy_kernel.design import Count, Design, Mismatch
from dfprivacy_kernel.embedding import Features
from dfprivacy_kernel.moments import Party, Scales, Summaries, conclude_apart
from dfprivacy_kernel.results import KernelTest, concluded

if TYPE_CHECKING:
    from dfprivacy import Column, Curator

__all__ = ["KernelMessage", "kernel_message"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelMessage(Release):
    """What one party says of its rows: noisy mean and second moment of public features.

    Attributes
    ----------
    mean : ndarray of shape (J,)
        Noisy mean of the features; kernel values are taken less 1/2.
    second : ndarray of shape (J, J)
        Noisy second moment.
    noise : tuple of float
        Standard deviations of the noise: of the mean, and of the second moment on the diagonal and beside it.
    size : int
        Number of rows.
    design : dict
        What both parties must have in common: columns, bounds, bandwidth, locations.
    """

    mean: Any
    second: Any
    noise: tuple[float, float, float]
    size: int
    design: dict[str, Any]

    _shown = ("mean", "noise", "size")

    def test(self, other: KernelMessage, *, alpha: float = 0.05) -> KernelTest:
        """Compare with the message of another party. It costs nothing: both have paid.

        Parameters
        ----------
        other : KernelMessage
            The other party's message, of the same columns, bandwidth and locations.
        alpha : float
            Level of the decision.

        Returns
        -------
        KernelTest
            The moments test of the two parties' rows.

        Raises
        ------
        ArgumentError
            If the messages do not fit together.
        """
        as_probability(alpha, "alpha")
        if not isinstance(other, KernelMessage):
            raise ArgumentError(
                f"A {type(other).__name__} is no message.", "Make one with view.kernel_message(...)."
            )
        differ = sorted(key for key in self.design if self.design[key] != other.design.get(key))
        if differ:
            raise ArgumentError(
                f"The messages differ in {', '.join(differ)}.",
                "Both parties must agree on columns, bounds, bandwidth and locations beforehand.",
            )
        first, second = self._party(), other._party()
        found = conclude_apart(first, second)
        noise = float(np.hypot(self.noise[0], other.noise[0]))
        return KernelTest(
            **concluded(found, first.mean - second.mean, noise, alpha),
            columns=tuple(self.design["columns"]),
            by="party",
            groups=("first", "second"),
            bandwidths=tuple(self.design["bandwidths"]),
            sizes=(self.size, other.size),
            locations=tuple(tuple(row) for row in self.design["locations"]),
        )

    def _party(self) -> Party:
        difference, diagonal, beside = self.noise
        return Party(self.mean, self.second, Scales(difference, np.inf, diagonal, beside), self.size)


@mechanism(columns={"columns": ["numeric"], "categories": ["category"]}, delta=True)
def kernel_message(
    curator: Curator,
    columns: Sequence[Column],
    *,
    categories: Sequence[Column] | None = None,
    features: Features = "me",
    bandwidth: Annotated[float, Range(0, exclusive="low")] | None = None,
    mismatch: Mismatch = 0.5,
    locations: Sequence[Any] | None = None,
    n_locations: Count = 5,
) -> KernelMessage:
    r"""Say what a kernel two-sample test needs to know of a table, for a comparison elsewhere.

    Two parties that trust nobody with their rows each publish a message, with privacy of their own. Whoever has
    both can compare them: ``message.test(other)``.

    Parameters
    ----------
    columns : list of str
        Columns with bounds.
    categories : list of str, optional
        Columns with categories.
    features : {"me", "scf", "nystrom"}
        What represents the kernel, see `kernel_two_sample`.
    bandwidth : float, optional
        Of the kernel exp(-d²/bandwidth²), in sixths of the bounds' widths; default: the root of the number of
        numeric columns.
    mismatch : float
        What a different category leaves of the kernel, in [0, 1).
    locations : list of rows, optional
        Public locations, both parties' the same.
    n_locations : int
        How many are made where none are given.

    Returns
    -------
    KernelMessage
        The message. ``to_dict()`` writes it down, ``Release.from_dict`` reads it.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or the number of rows is private; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy where a row changes and the number of rows n is public. Mean and second
    moment are released by one draw of Gaussian noise. Kernel values less 1/2 lie in a cube, where the second moment
    at noise J σ/(2n) is free beside the mean at √J σ/n. (In the reference [1]_, the two pay half each.)

    References
    ----------
    .. [1] A. Raj, H. C. L. Law, D. Sejdinovic, M. Park. A differentially private kernel two-sample test. ECML 2019.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> def message(name, x):
    ...     view = dp.protect(pd.DataFrame({"age": x}), name, epsilon=1, delta=1e-6, ledger="memory:",
    ...                       bounds={"age": (0, 100)})
    ...     return view.kernel_message(["age"], epsilon=1)
    >>> north, south = message("north", np.linspace(20, 60, 4000)), message("south", np.linspace(40, 80, 5000))
    >>> north.test(south).pvalue < 1e-6
    True
    """
    design = Design.read((*columns, *(categories or ())), features, bandwidth, mismatch, locations, n_locations)
    size = curator.size
    if size is None:
        raise ArgumentError(
            "A message tells means, and the number of rows is private here.",
            'Protect the table with neighbors="replace_one", and select rows by public columns only.',
        )
    if size < 2:  # noqa: PLR2004
        raise ArgumentError("One row is no sample.", "The test needs at least two.")
    asked = Summaries(None, design.embedding(mapped=False), features, [size])
    (party,) = asked.read(curator.measure(asked, noise="gaussian"))
    difference, _, diagonal, beside = astuple(party.noise)
    return KernelMessage(
        mean=party.mean,
        second=party.second,
        noise=(difference, diagonal, beside),
        size=size,
        design=design.to_dict(),
    )
