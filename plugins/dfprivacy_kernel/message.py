"""``view.kernel_message``: create a message from which two parties test whether their rows differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, NanPolicy, Range, Release, mechanism
from dfprivacy.schema import as_probability
from dfprivacy.wording import number
from dfprivacy_kernel.design import Count, Design, Groups, Mismatch, required_columns
from dfprivacy_kernel.embedding import Features
from dfprivacy_kernel.moments import OneSampleMoments, Party, Scales, max_feature_difference, parties_test
from dfprivacy_kernel.printed import measure_paper_moments, paper_test
from dfprivacy_kernel.results import KernelTest

if TYPE_CHECKING:
    from dfprivacy import Column, Curator

__all__ = ["KernelMessage", "kernel_message"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelMessage(Release):
    """Message of one party, with the noisy mean and second moment of public features of its rows.

    Attributes
    ----------
    mean : ndarray of shape (J,)
        Noisy mean of the features; kernel values are taken less 1/2, but for ``variant="nte"``.
    second : ndarray of shape (J, J)
        Noisy second moment.
    noise_standard_error : float
        Standard deviation of the noise in each coordinate of the mean.
    second_noise_standard_error : tuple of float
        The same of the second moment, on the diagonal and beside it.
    size : float
        Number of rows that these are of; noisy where it is private which rows are complete.
    missing, missing_standard_error : float or None
        Rows left out because a value is missing, and the noise in their number and in `size`; None where nothing
        was left out by the policy.
    design : dict
        What both parties must have in common: columns, bounds, lengthscale, locations, variant, and the policy on
        missing values.
    """

    mean: Any
    second: Any
    noise_standard_error: float
    second_noise_standard_error: tuple[float, float]
    size: float
    missing: float | None = None
    missing_standard_error: float | None = None
    design: dict[str, Any]

    _shown = ("mean", "noise_standard_error", "size", "missing", "missing_standard_error")

    def _sentence(self) -> str:
        """Write a sentence on the contents of the message and on its use."""
        columns = self._label(*self.design["columns"])
        about = f"{number(self.size, 1.0)} rows of {columns}"
        return f"A message to another party about {about}; its test() compares it with another message."

    def test(self, other: KernelMessage, *, alpha: float = 0.05) -> KernelTest:
        """Test whether the rows of this message and those of another party's come from the same distribution.

        Parameters
        ----------
        other : KernelMessage
            The other party's message, of the same columns, lengthscale and locations.
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
                f"other= must be a message, not a {type(other).__name__}.",
                "Create it with view.kernel_message(...).",
            )
        keys = {*self.design, *other.design}
        differ = sorted(key for key in keys if self.design.get(key) != other.design.get(key))
        if differ:
            raise ArgumentError(
                f"The messages differ in {', '.join(differ)}.",
                "Create both messages with the same columns, bounds, lengthscale= and locations=.",
            )
        variant = self.design.get("variant")
        test = parties_test if variant is None else paper_test
        gone = [each.missing for each in (self, other) if each.missing is not None]
        errors = [each.missing_standard_error or 0.0 for each in (self, other)]
        return KernelTest(
            **test((self._party(), other._party())).result_fields(alpha),
            variant=variant,
            columns=tuple(self.design["columns"]),
            by="party",
            groups=("first", "second"),
            lengthscales=tuple(self.design["lengthscales"]),
            sizes=(self.size, other.size),
            missing=sum(gone) if gone else None,
            missing_standard_error=math.hypot(*errors) if gone else None,
            locations=tuple(tuple(row) for row in self.design["locations"]),
        )

    def _party(self) -> Party:
        noise = Scales(self.noise_standard_error, np.inf, *self.second_noise_standard_error)
        reach = max_feature_difference(self.design["features"], len(self.mean))
        return Party(self.mean, self.second, noise, self.size, self.missing_standard_error or 0.0, reach)


@mechanism(columns={"columns": ["numeric"], "categories": ["category"]}, delta=True)
def kernel_message(
    curator: Curator,
    columns: Sequence[Column],
    *,
    categories: Sequence[Column] | None = None,
    features: Features = "me",
    lengthscale: Annotated[float, Range(0, exclusive="low")] | None = None,
    mismatch: Mismatch = 0.5,
    locations: Sequence[Any] | None = None,
    n_locations: Count = 5,
    variant: Literal["nte"] | None = None,
    nan_policy: NanPolicy = "omit",
) -> tuple[Design, Party, int, NanPolicy]:
    r"""Measure the feature moments of a table, for a kernel two-sample test with another party.

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
    lengthscale : float, optional
        Of the kernel exp(-d²/lengthscale²), in sixths of the bounds' widths; default: the root of the number of
        numeric columns.
    mismatch : float
        What a different category leaves of the kernel, in [0, 1).
    locations : list of rows, optional
        Public locations, both parties' the same.
    n_locations : int
        How many are made where none are given.
    variant : {"nte"}, optional
        The reference's message as printed: mean and second moment at half of the price each, and its test when
        messages are compared. For comparisons: it is noisier, and its p-values can be too small.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows in which a value is missing, see `kernel_two_sample`. How many are left is released.

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
    at noise J σ/(2n) is free beside the mean at √J σ/n, and so is the number of complete rows at noise √2 σ. (In
    the reference [1]_, mean and second moment pay half each.)

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
    design = Design.from_arguments(
        (*columns, *(categories or ())), features, lengthscale, mismatch, locations, n_locations
    )
    size = curator.size
    if size is None:
        raise ArgumentError(
            "A message needs a public number of rows, and the number is private here.",
            'Protect the table with neighbors="replace_one", and select rows by public columns only.',
        )
    if variant is not None and features == "nystrom":
        raise ArgumentError(f"variant={variant!r} cannot use Nyström features.", 'Use features="me" or "scf".')
    if size < 2:  # noqa: PLR2004
        raise ArgumentError("The table has a single row.", "Use a table with at least two rows.")
    given = required_columns(curator, design.columns, nan_policy)
    table, embedding = Groups(None, (), None if given else (size,), given, (size,)), design.embedding(mapped=False)
    if variant == "nte":
        (party,) = measure_paper_moments(curator, variant, table, embedding, features)
    else:
        summary = OneSampleMoments(table, embedding, features)
        party = summary.noisy_moments(curator.measure(summary, noise="gaussian"))
    return design, party, size, nan_policy


@kernel_message.concludes
def conclude_kernel_message(
    measured: tuple[Design, Party, int, NanPolicy], *, variant: Literal["nte"] | None = None
) -> KernelMessage:
    """Construct a party's message from the noisy mean and second moment of its rows' features."""
    design, party, rows, nan_policy = measured
    left_out = nan_policy == "omit"
    return KernelMessage(
        mean=party.mean,
        second=party.second,
        noise_standard_error=party.noise.difference,
        second_noise_standard_error=(party.noise.diagonal, party.noise.beside),
        size=party.size,
        missing=rows - party.size if left_out else None,
        missing_standard_error=party.count_noise if left_out else None,
        design={**design.to_dict(), "variant": variant, "nan_policy": nan_policy},
    )
