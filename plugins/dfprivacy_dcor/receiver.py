"""The other of two parties: what it may show of a message and its own columns, and what it learns for itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.special import gammaincinv, ndtri

from dfprivacy import ArgumentError, NanPolicy, PrivateFrame, Probability, Range, mechanism
from dfprivacy_dcor.estimate import Estimate
from dfprivacy_dcor.inference import UNINFORMATIVE
from dfprivacy_dcor.message import SEEN, Keys, Message, checked, fingerprint, keys_of
from dfprivacy_dcor.results import SharedCorrelation
from dfprivacy_dcor.sender import KEYS, Protocol
from dfprivacy_dcor.shown import Shown
from dfprivacy_dcor.spaces import ROWS_MIN, rows_of, space

if TYPE_CHECKING:
    from dfprivacy import Column, Curator, Holder
    from dfprivacy.release import NoisyValue
    from dfprivacy_dcor.spaces import Space

__all__ = ["dcor_with", "estimate_of", "message_of"]


@dataclass(frozen=True)
class Compared:
    """Noisy numbers of a message and the columns it is compared with, and what is public of both."""

    message: Message
    columns: tuple[str, ...]
    diameter: float
    sampling: float
    noisy: NoisyValue


@mechanism(columns={"columns": "columns", "keys": "public"})
def dcor_with(
    curator: Curator,
    other: Message | PrivateFrame,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Keys | None = None,
    nan_policy: NanPolicy = "omit",
) -> Compared:
    r"""Measure how columns depend on those of another party, for anybody to see.

    Parameters
    ----------
    other : DistanceMessage, ProjectionMessage or PrivateFrame
        What the other party's `dcor_message` wrote; it may be used as often as one likes. Or a view of the other
        table, which is asked for its message, and whose own account pays for that.
    columns : str or list of str
        Columns with bounds, or one with categories.
    asked : dict, optional
        If ``other`` is a view: what its `dcor_message` is asked, at least ``columns`` and ``epsilon``.
    protocol : {"angle", "paper"}, optional
        Which message it must be; default: any, and ``"angle"`` of a view.
    keys : str or list of str or int, optional
        If the message has keys: the public column of this table with the same, or the key of each row. Else rows
        correspond by position.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows of this table with a missing value do not count, for twice the noise in the covariance.
        ``"fill"``: they count, with the fill value or as a category of their own. ``"raise"``: for public columns.
    confidence : float
        Confidence of the lower bound.

    Returns
    -------
    SharedCorrelation
        The squared distance correlation.

    Raises
    ------
    ArgumentError
        If the rows of message and table do not correspond, or an argument cannot be used; nothing is charged.
    BudgetExceeded
        If an account cannot pay; nothing is charged to it. A message that the other view has paid for stays in its
        ledger, and is not paid for again.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy of this table's rows. Given the message, the distance covariance with
    its features f changes by at most :math:`\frac{2}{n} \max_i |f_i - \bar f| \sqrt D` when one row does, or twice
    that where rows may be left out, the distance deviation and the mean distance by 2(n-1)/n² D; they are released
    with discrete Laplace noise. The message was paid for by the other party: somebody who is a row of both tables
    loses both epsilons in all.

    **Statistics.** The harmonics that a message leaves out add to the squared distance covariance, and nothing in
    the message bounds them, so the answer has a lower confidence bound and no upper one. The bound includes the
    noise of the message's rows, the noise of the sums, and the dealing of rows to harmonics.

    ``dcor_with_own`` is the exact form, with a p-value, for the owner of this table alone.

    References
    ----------
    .. [1] Vepakomma, Pushpita and Raskar (2021). Private measurement of nonlinear correlations between data hosted
       across multiple parties.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 5000)
    >>> alice = dp.protect(pd.DataFrame({"dose": x}), "dcor-with-alice", epsilon=4, ledger="memory:",
    ...                    bounds={"dose": (-1, 1)})
    >>> bob = dp.protect(pd.DataFrame({"effect": x}), "dcor-with-bob", epsilon=4, ledger="memory:",
    ...                  bounds={"effect": (-1, 1)})
    >>> bob.dcor_with(alice.dcor_message("dose", epsilon=2), "effect", epsilon=2).squared > 0.5
    True

    The same, with a view in place of the message:

    >>> bob.dcor_with(alice, "effect", asked={"columns": "dose", "epsilon": 2}, epsilon=2).squared > 0.5
    True
    >>> float(alice.budget.spent), float(bob.budget.spent)  # neither was asked anything new
    (2.0, 2.0)
    """
    message, y = _met(curator, other, columns, asked, protocol, keys, nan_policy)
    shown = Shown(message, y)
    return Compared(message, y.names, y.diameter, shown.sampling, curator.measure(shown))


@dcor_with.concludes
def _(
    measured: Compared,
    *,
    confidence: Probability = 0.95,
) -> SharedCorrelation:
    """Conclude from the numbers and the message."""
    message, sampling = measured.message, measured.sampling
    values, scales = measured.noisy.values.tolist(), measured.noisy.scales.tolist()
    counted = len(values) > 3  # noqa: PLR2004 - the share of complete rows
    if not counted:
        values, scales = [*values, 1.0], [*scales, 0.0]
    covariance, deviation, below, complete = values
    share = min(max(complete, 2 * scales[3], ROWS_MIN / message.rows), 1.0)
    mean = max(below + measured.diameter * share, 0.0)
    squared = math.copysign(covariance**2, covariance) - 2 * scales[0] ** 2 - sampling * mean
    denominator = message.share * share * message.spread * max(deviation, 2 * scales[1])
    notes = [*message.remarks]
    if len(message.columns) > 1:
        notes.append(f"the bound is for the {len(message.directions)} directions of the message, not for all")
    if not (message.informative and deviation >= SEEN * scales[1]):
        notes.append(UNINFORMATIVE)
    if 1 - complete > SEEN * scales[3] > 0:
        notes.append(
            f"about {1 - complete:.1%} of the rows are left out: a value is missing, or none that was declared"
        )
    return SharedCorrelation(
        squared=min(max(squared / denominator, 0.0), 1.0),
        low=_lower_bound(measured, values, scales, confidence),
        confidence=confidence,
        columns=measured.columns,
        other=message.columns,
        rows=message.rows,
        missing=message.rows * (1 - complete) if counted else None,
        missing_standard_error=math.sqrt(2) * message.rows * scales[3] if counted else None,
        notes=tuple(notes),
        released=tuple(values),
        noise_standard_error=tuple(math.sqrt(2) * scale for scale in scales),
    )


def _lower_bound(measured: Compared, values: list[float], scales: list[float], confidence: float) -> float:
    r"""Compute a lower confidence bound for the squared distance correlation, by Bonferroni's inequality.

    With t for what :math:`T = 2|C + N|` would be without the noise N of the message's rows,
    :math:`T^2 = t^2 + 2 t G + Q`: G is normal with a variance of at most s_y times the sampling, and Q a sum of
    weighted chi-squared variables, whose mean and greatest variance a gamma distribution has.
    """
    message = measured.message
    theirs = [(message.deviation, message.deviation_scale)]
    theirs += [(1.0, 0.0) if message.complete is None else (message.complete, message.complete_scale or 0.0)]
    numbers = [*zip(values, scales, strict=True), *theirs]
    lost = (1 - confidence) / (sum(b > 0 for _, b in numbers) + 2)
    room = math.log(1 / (2 * lost))
    least, most = ([value + sign * b * room for value, b in numbers] for sign in (-1, 1))
    shares = [min(max(most[at], ROWS_MIN / message.rows), 1.0) for at in (3, 5)]
    deviation, mean = max(most[1], 0.0), max(most[2] + measured.diameter * shares[0], 0.0)
    variance, expected = measured.sampling * deviation, measured.sampling * mean
    whole = shares[0] * shares[1] * deviation * max(most[4], 0.0)
    if not (whole > 0 and expected > 0):
        return 0.0
    added = float(gammaincinv(expected**2 / (2 * variance**2), 1 - lost)) * 2 * variance**2 / expected
    reach = -float(ndtri(lost)) * math.sqrt(variance)
    t = math.sqrt(reach**2 + max(max(least[0], 0.0) ** 2 - added, 0.0)) - reach
    return min(t**2 / whole, 1.0)


def estimate_of(
    holder: Holder,
    other: Message | PrivateFrame,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Keys | None = None,
    nan_policy: NanPolicy = "omit",
    permutations: Annotated[int, Range(1)] = 999,
    seed: Annotated[int, Range(0)] | None = None,
    alpha: Probability = 0.05,
) -> Estimate:
    """Estimate how columns depend on those of another party, exactly: for the owner of this table alone.

    Parameters
    ----------
    other : DistanceMessage, ProjectionMessage or PrivateFrame
        What the other party's `dcor_message` wrote, or a view of the other table, whose own account pays for that.
    columns : str or list of str
        Columns with bounds, or one with categories.
    asked : dict, optional
        If ``other`` is a view: what its `dcor_message` is asked, at least ``columns`` and ``epsilon``.
    protocol : {"angle", "paper"}, optional
        Which message it must be; default: any, and ``"angle"`` of a view.
    keys : str or list of str or int, optional
        As for `dcor_with`.
    nan_policy : {"omit", "fill", "raise"}
        As for `dcor_with`.
    permutations : int
        How many, for the p-value.
    seed : int, optional
        Of the permutations.
    alpha : float
        Level of the test.

    Returns
    -------
    Estimate
        ``message.estimate`` of this table's rows, each column scaled by its bounds.

    Raises
    ------
    ArgumentError
        If the rows of message and table do not correspond, or an argument cannot be used.

    Notes
    -----
    **Privacy.** None for this table's rows: the answer is a function of them without noise, and a message that
    somebody made up could ask for single rows. It is free, not kept in the ledger, and no release. The rows of the
    other party stay protected, as it is post-processing of their message. To show a result, ask `dcor_with`.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 5000)
    >>> alice = dp.protect(pd.DataFrame({"dose": x}), "own-alice", epsilon=4, ledger="memory:",
    ...                    bounds={"dose": (-1, 1)})
    >>> bob = dp.protect(pd.DataFrame({"effect": x}), "own-bob", epsilon=4, ledger="memory:",
    ...                  bounds={"effect": (-1, 1)})
    >>> bob.dcor_with_own(alice.dcor_message("dose", epsilon=2), "effect", permutations=99).pvalue
    0.01
    >>> float(bob.budget.spent)
    0.0
    """
    message, y = _met(holder, other, columns, asked, protocol, keys, nan_policy)
    rows = holder.rows(*y.columns)
    kept = np.flatnonzero(y.complete(rows))
    if len(kept) < ROWS_MIN:
        raise ArgumentError(f"Fewer than {ROWS_MIN} rows are complete.", "Use nan_policy='fill', or other columns.")
    message = message.only(kept)
    own = y.coordinates(rows)[kept]
    return message.estimate(own, keys=message.keys, permutations=permutations, seed=seed, alpha=alpha)


def _met(
    curator: Curator,
    other: object,
    columns: tuple[Column, ...],
    asked: object,
    protocol: Protocol | None,
    keys: Keys | None,
    nan_policy: NanPolicy,
) -> tuple[Message, Space]:
    """Check message and columns, and bring the rows of the message in the order of the table's."""
    if isinstance(other, PrivateFrame):
        raise ArgumentError(
            "Another view is asked for its message first, at a charge, which an explanation makes none of.",
            "Explain the other view's dcor_message, and this with its message.",
        )
    if asked is not None:
        raise ArgumentError("asked= is for another view.", "Leave it out: a message has its terms.")
    message = checked(other)
    if protocol not in (None, message.protocol):
        raise ArgumentError(
            f"This is a message of protocol {message.protocol!r}, not {protocol!r}.", "Leave protocol= out."
        )
    y = space(columns, "euclidean", nan_policy=nan_policy)
    n = rows_of(curator, y, nan_policy=nan_policy)
    return message.aligned(keys_of(curator, keys, n), n), y


def message_of(
    curator: Curator,
    other: object,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Keys | None = None,
    **_: Any,
) -> Mapping[str, Any]:
    """Ask another view for its message, once it is clear that it can be used; for `dcor_with`."""
    if not isinstance(other, PrivateFrame):
        return {}
    n = rows_of(curator, space(columns, "euclidean"))
    own = keys_of(curator, keys, n)
    terms = dict(asked) if isinstance(asked, dict) else {}
    if not {"columns", "epsilon"} <= terms.keys():
        raise ArgumentError(
            "Another view was given, and not what it is to be asked.",
            "For example asked={'columns': 'dose', 'epsilon': 1}: its own account pays that epsilon.",
        )
    if "protocol" in terms:
        raise ArgumentError("asked= names a protocol.", "Name it by protocol=.")
    terms["protocol"] = protocol or "angle"
    theirs = other.explain("dcor_message", **{**terms, "epsilon": 1}).findings  # whatever it pays
    if theirs["rows"] != n:
        raise ArgumentError(
            f"The other view has {theirs['rows']} rows, and this one {n}.",
            "Both parties need the same rows, aligned by position or by keys.",
        )
    if (own is None) != (KEYS not in theirs):
        raise ArgumentError(
            "Only one of both tables has keys.",
            "Give keys= and asked={'keys': ...}, or neither and align the rows.",
        )
    if own is not None and theirs[KEYS] != fingerprint(own):
        raise ArgumentError("The keys of both tables do not match one to one.", "Join the tables first.")
    return {"other": other.dcor_message(**terms), "asked": None}
