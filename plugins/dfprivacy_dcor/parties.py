"""Methods of two parties: create a message, and estimate how own columns depend on the other's message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import gammaincinv, ndtri

from dfprivacy import ArgumentError, NanPolicy, PrivateFrame, Probability, Range, mechanism
from dfprivacy.statistics import gaussian_scale
from dfprivacy_dcor.angles import HARMONIC_MAX, PLACES, Angles, DistanceMessage, best_half_width
from dfprivacy_dcor.inference import SEEN, UNINFORMATIVE, bounded_share, missing_note
from dfprivacy_dcor.message import Estimate, Keys, Message, check_rows, checked_message, fingerprint, keys_of
from dfprivacy_dcor.paper import Calibration, ProjectionMessage, Projections, kenthapadi_scale
from dfprivacy_dcor.points import distance_statistics
from dfprivacy_dcor.results import SharedCorrelation, result_fields
from dfprivacy_dcor.spaces import ROWS_MIN, checked_rows, metric_space, rounding_error, unit_vectors
from dfprivacy_dcor.statistics import CompleteRowStatistics, DistanceDeviation, complete_points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, Holder
    from dfprivacy.release import NoisyValue
    from dfprivacy_dcor.message import Message
    from dfprivacy_dcor.spaces import Space

__all__ = [
    "SHOWN_SHARES",
    "MessageStatistics",
    "Protocol",
    "dcor_message",
    "dcor_with",
    "estimate_without_noise",
    "request_message",
    "rows_and_keys",
]

SHOWN_SHARES = (0.6, 0.2, 0.2)
"""Parts of epsilon for the covariance with a message, s_y and m_y."""
_MIN_CHANGE, _MAX_CHANGE = 1e-100, 1e100  # between them no product overflows, or loses digits


class MessageStatistics(CompleteRowStatistics):
    r"""Statistics of `dcor_with`: own columns' distance covariance with a message, deviation and mean distance.

    Parameters
    ----------
    message : Message
        The message of the other party.
    y : Space
        The space of the second party's own columns.
    """

    description = "the distance covariance of {columns} and a message"

    def __init__(self, message: Message, y: Space) -> None:
        self.y, self.parts, n = y, message.parts(), message.rows
        change = math.sqrt(self._max_squared_change(n) * y.diameter)
        if not _MIN_CHANGE < change < _MAX_CHANGE:
            raise ArgumentError(
                "The rows of the message are all equal, or its numbers are too large or too small for float64.",
                "Ask the other party for the message again.",
            )
        other = 2 * (n - 1) / n**2 * y.diameter
        root = math.sqrt(sum(2 * part.squares.mean() for part in self.parts) * y.diameter)
        slack = (
            rounding_error(y, y)[1] / y.diameter * (1 + y.omit)
        )  # of a part of the rows features are twice as long
        super().__init__(
            [(y,)] * 3,
            np.array(SHOWN_SHARES),
            np.array([change, other, other]),
            np.array([1.0, 1.0, n / (2 * (n - 1))]),
            slack * np.array([root, y.diameter, y.diameter]),
            n,
        )

    def _max_squared_change(self, n: int) -> float:
        """Return the squared sensitivity of the distance covariance to one row, divided by the diameter of y."""
        reach = np.zeros(n)
        for part in self.parts:
            far = part.squares
            if self.y.omit:
                far = (np.sqrt(far) + math.sqrt(far.max())) ** 2
            reach[part.rows] += far * (2 / len(part.rows)) ** 2
        return float(reach.max())

    @property
    def sampling(self) -> float:
        """Expected squared distance covariance under independence, for own rows with a mean distance of 1."""
        return float(sum(2 * part.squares.mean() / len(part.rows) for part in self.parts))

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the statistics, each times its weight."""
        points, _, share = complete_points(self.y, self.y, rows)
        y, there = self.y.rows(rows), self.y.complete(rows)
        squares = []
        for part in self.parts:
            kept = part.subset(there)
            if len(kept.rows):
                squares.append((len(kept.rows) / len(part.rows)) ** 2 * kept.covariance(y.reorder(kept.rows)))
        _, deviation, _, mean, _ = distance_statistics(points, points)
        values = self.weighted([0.0, deviation, mean - self.y.diameter], share)
        values[0] = math.sqrt(math.fsum(squares)) * self.weights[0]  # the share is in the squares
        return values


Protocol = Literal["angle", "paper"]

_HARMONICS_FROM = 5000  # n epsilon², from which on a second harmonic pays
_FIRST_HARMONIC_SHARE = 0.7  # of the rows then speak of the first harmonic
_BLOCKS = 10
KEYS = "fingerprint of the keys"


@mechanism(columns={"columns": "columns", "keys": "public"}, local=True, delta=True)
def dcor_message(
    curator: Curator,
    columns: tuple[Column, ...],
    *,
    protocol: Protocol = "angle",
    harmonics: Sequence[int] | None = None,
    length: Annotated[float, Range(0, 1, exclusive="low")] = 1.0,
    blocks: Annotated[int, Range(1)] | None = None,
    split: bool = True,
    calibration: Calibration = "analytic",
    keys: Keys | None = None,
    seed: Annotated[int, Range(0)] = 0,
    nan_policy: NanPolicy = "omit",
) -> DistanceMessage | ProjectionMessage:
    """Create a message from which another party can estimate how its own columns depend on these columns.

    Parameters
    ----------
    columns : str or list of str
        Columns with bounds.
    protocol : {"angle", "paper"}
        ``"angle"``: one randomised angle a row. ``"paper"``: random projections with Gaussian noise [1]_, for
        comparison: it needs a delta, and little is left of the dependence at an epsilon of 10 and below.
    harmonics : list of int, optional
        Odd harmonics of the distance kernel; the first has 70 % of the rows if there are several. Default: 1, and 3
        too if n ε² is 5000 and more.
    length : float
        Bandwidth, as a part of the width of a projection. With several columns that crowd within their bounds, less
        than 1 tells more; public, never chosen by looking at the rows.
    blocks : int, optional
        With several columns: blocks of rows, each of which speaks of a random direction of its own; default 10.
    split : bool
        With ``"paper"``: whether a row is projected in the direction of its block only (equation 4), or in those
        of all blocks, with more noise (equation 3).
    calibration : {"analytic", "kenthapadi"}
        Of the Gaussian noise of ``"paper"``: the least that there is, or that of the paper's appendix D [3]_, a
        quarter to a third wider and no more private, for comparison.
    keys : str or list of str or int, optional
        A public column of integers or text, all different, by which the other party finds the same rows in its
        table; or such a key for each row. The message holds the keys. Default: rows correspond by position.
    seed : int
        Of the public directions and blocks.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row with a missing value sends noise alone, and the share of such rows is part of the message.
        ``"fill"``: it sends the fill value, with noise. ``"raise"`` is for public columns.

    Returns
    -------
    DistanceMessage or ProjectionMessage
        With `estimate`, for the other party; `save` writes a file that `load_message` reads.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, the number of rows is private or below 4; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the content of one row; with ``"paper"``
    (ε, δ)-differential privacy, by one Gaussian noise for all projections of a row. Each row becomes one
    angle, randomised on its own at 0.9 ε: angles on an arc around the true one are equally likely, by a ratio of at
    most e^(0.9 ε) more than others. Which harmonic and direction a row speaks of is drawn without looking at it.
    The distance standard deviation of all complete rows, times their share, whose sensitivity is 2(n-1)/n² times
    the diameter, and this share take 0.1 ε. What anybody computes from the message, as often as they like, is
    post-processing.

    **Missing values.** Nobody may learn which rows lack one, so no row is left out. One that does is given one of
    two opposite angles by a public coin, and randomised like any other: it says nothing on average. The
    covariance with the other party's numbers is then low by the share of complete rows, for which `estimate` and
    `dcor_with` correct. That supposes that the other numbers do not tell where a value is missing.

    References
    ----------
    .. [1] Vepakomma, Pushpita and Raskar (2021). Private measurement of nonlinear correlations between data hosted
       across multiple parties.
    .. [2] Kairouz, Oh and Viswanath (2016). Extremal mechanisms for local differential privacy. JMLR 17.
    .. [3] Kenthapadi, Korolova, Mironov and Mishra (2013). Privacy via the Johnson-Lindenstrauss transform. Journal
       of Privacy and Confidentiality 5.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 5000)
    >>> alice = dp.protect(pd.DataFrame({"dose": x}), "dcor-message-example", epsilon=4, ledger="memory:",
    ...                    bounds={"dose": (-1, 1)})
    >>> message = alice.dcor_message("dose", epsilon=2)
    >>> message.estimate(x**2, permutations=99, seed=0).pvalue < 0.05
    True
    """
    x = metric_space(columns, "euclidean", nan_policy=nan_policy)
    if x.metric == "discrete":
        raise ArgumentError("dcor_message() takes numeric columns with bounds only.", "Name columns with bounds.")
    if protocol == "paper" and (harmonics is not None or length != 1):
        raise ArgumentError("harmonics= and length= need protocol='angle'.", "Omit harmonics= and length=.")
    if protocol == "angle" and calibration != "analytic":
        raise ArgumentError(
            "calibration= is an option of protocol='paper'.", "Use protocol='paper', or omit calibration=."
        )
    n, p = checked_rows(curator, x, nan_policy=nan_policy), len(columns)
    if harmonics is None:
        harmonics = (1, 3) if n * curator.epsilon**2 >= _HARMONICS_FROM and p == 1 and protocol == "angle" else (1,)
    odd = isinstance(harmonics, list | tuple) and all(
        type(k) is int and 0 < k <= HARMONIC_MAX and k % 2 for k in harmonics
    )
    if not odd or not harmonics or len(set(harmonics)) < len(harmonics):
        raise ArgumentError(f"harmonics={harmonics!r} must be different odd integers.", "Use (1,) or (1, 3).")
    count = blocks if blocks is not None else (1 if p == 1 else _BLOCKS)
    if count * len(harmonics) * ROWS_MIN > n or (p == 1 and count > 1):
        raise ArgumentError(
            f"{n} rows of {p} columns cannot be divided into {count!r} blocks for each harmonic.",
            "Use one block for one column, and at least four rows in each block.",
        )
    known = keys_of(curator, keys, n)
    units = np.ones((1, 1)) if p == 1 else unit_vectors(count, p, seed)
    rng = np.random.default_rng(seed)
    turns = _random_blocks(n, len(harmonics), count, rng)
    if protocol == "paper":
        excess = 1.0
        if calibration == "kenthapadi":
            price = 0.9 * curator.epsilon, 0.9 * curator.delta
            excess = kenthapadi_scale(*price) / gaussian_scale(*price)
        projections = Projections(columns, units, turns.astype(np.int64), split=split, omit=x.omit, excess=excess)
        noisy = curator.measure(projections, noise="gaussian", share="9/10")
        own: dict[str, Any] = {"projections": noisy.values, "scale": float(noisy.scales.flat[0])}
    else:
        units, wave = np.concatenate([units] * len(harmonics)), np.repeat(harmonics, count)
        maps, whose = _angle_maps(columns, units, wave, length, turns, rng if x.omit else None)
        messages = curator.randomize(maps, reach=best_half_width(0.9 * curator.epsilon), turns=whose, share="9/10")
        arc = {name: getattr(messages.arc, name) for name in ("places", "reach", "inside", "outside")}
        own = {"angles": messages.values, "harmonics": tuple(int(k) for k in wave), "length": length, **arc}
    noisy = curator.measure(DistanceDeviation(x, n), share="1/10")
    values, scales = noisy.values.tolist(), noisy.scales.tolist()
    return (ProjectionMessage if protocol == "paper" else DistanceMessage)(
        columns=x.names,
        rows=n,
        turns=turns.astype(np.int64),
        directions=units,
        deviation=values[0],
        deviation_scale=scales[0],
        complete=values[1] if x.omit else None,
        complete_scale=scales[1] if x.omit else None,
        keys=known,
        **own,
    )


def rows_and_keys(
    curator: Curator, columns: tuple[Column, ...], *, keys: Keys | None = None, **_: Any
) -> Mapping[str, Any]:
    """Return the number of rows and a hash of the keys, which both parties compare; for ``explain``."""
    n = checked_rows(curator, metric_space(columns, "euclidean"))
    known = keys_of(curator, keys, n)
    return {"rows": n} if known is None else {"rows": n, KEYS: fingerprint(known)}


def _angle_maps(
    columns: tuple[Column, ...],
    directions: NDArray[np.float64],
    harmonics: NDArray[np.intp],
    length: float,
    turns: NDArray[np.intp],
    coins: np.random.Generator | None,
) -> tuple[list[Angles], NDArray[np.intp]]:
    """Return the features that map rows to angles, and the index of the feature used for each row.

    Where rows with a missing value are to send noise alone, there are two for each block, which place them on
    opposite angles, and a coin decides between them.
    """
    gaps = (None,) if coins is None else (0, PLACES // 2)
    maps = [
        Angles(columns, direction, int(k), length, gap)
        for direction, k in zip(directions, harmonics, strict=True)
        for gap in gaps
    ]
    return maps, turns if coins is None else 2 * turns + coins.integers(2, size=len(turns))


def _random_blocks(n: int, harmonics: int, count: int, rng: np.random.Generator) -> Any:
    """Assign the rows at random to blocks, of equal size for one harmonic, and return the block of each row."""
    first = n if harmonics == 1 else round(_FIRST_HARMONIC_SHARE * n)
    dealt = np.concatenate(
        [np.arange(first) % count, count + np.arange(n - first) % max(1, count * (harmonics - 1))]
    )
    return rng.permutation(dealt).astype(np.intp)


@dataclass(frozen=True)
class MessageResult:
    """Measurement of `dcor_with`: the noisy statistics, and public facts about the message and the columns."""

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
) -> MessageResult:
    r"""Estimate, with privacy, how strongly columns depend on another party's columns.

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
    that where rows may be left out, the distance standard deviation and mean distance by 2(n-1)/n² D; they are
    released with discrete Laplace noise. The message was paid for by the other party: somebody who is a row of both
    tables loses both epsilons in all.

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
    message, y = _checked_message(curator, other, columns, asked, protocol, keys, nan_policy)
    shown = MessageStatistics(message, y)
    return MessageResult(message, y.names, y.diameter, shown.sampling, curator.measure(shown))


@dcor_with.concludes
def conclude_dcor_with(
    measured: MessageResult,
    *,
    confidence: Probability = 0.95,
) -> SharedCorrelation:
    """Compute the squared distance correlation and its lower bound from the noisy statistics."""
    message, sampling = measured.message, measured.sampling
    values, scales = measured.noisy.values.tolist(), measured.noisy.scales.tolist()
    counted = len(values) > 3  # noqa: PLR2004 - the share of complete rows
    if not counted:
        values, scales = [*values, 1.0], [*scales, 0.0]
    covariance, deviation, below, complete = values
    share = bounded_share(complete, scales[3], message.rows)
    mean = max(below + measured.diameter * share, 0.0)
    squared = math.copysign(covariance**2, covariance) - 2 * scales[0] ** 2 - sampling * mean
    denominator = message.share * share * message.spread * max(deviation, 2 * scales[1])
    notes = [*message.remarks]
    if len(message.columns) > 1:
        notes.append(
            f"the lower bound holds for the message's {len(message.directions)} directions, not for all directions"
        )
    if not (message.informative and deviation >= SEEN * scales[1]):
        notes.append(UNINFORMATIVE)
    return SharedCorrelation(
        squared=min(max(squared / denominator, 0.0), 1.0),
        low=_lower_bound(measured, values, scales, confidence),
        confidence=confidence,
        columns=measured.columns,
        other=message.columns,
        notes=(*notes, *missing_note(complete, scales[3])),
        **result_fields(values, scales, message.rows, counted=counted),
    )


def _lower_bound(measured: MessageResult, values: list[float], scales: list[float], confidence: float) -> float:
    r"""Return a lower confidence bound for the squared distance correlation, by Bonferroni's inequality.

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


def estimate_without_noise(
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
    """Estimate the distance correlation with another party's columns without noise; for the table's owner only.

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
    message, y = _checked_message(holder, other, columns, asked, protocol, keys, nan_policy)
    rows = holder.rows(*y.columns)
    kept = np.flatnonzero(y.complete(rows))
    if len(kept) < ROWS_MIN:
        raise ArgumentError(
            f"Fewer than {ROWS_MIN} rows have no missing value.", "Use nan_policy='fill', or other columns."
        )
    message = message.subset(kept)
    own = y.coordinates(rows)[kept]
    return message.estimate(own, keys=message.keys, permutations=permutations, seed=seed, alpha=alpha)


def _checked_message(
    curator: Curator,
    other: object,
    columns: tuple[Column, ...],
    asked: object,
    protocol: Protocol | None,
    keys: Keys | None,
    nan_policy: NanPolicy,
) -> tuple[Message, Space]:
    """Check the arguments; return the message in the table's row order, and the metric space of the columns."""
    if isinstance(other, PrivateFrame):
        raise ArgumentError(
            "This call would create a new message of the other view, and explain() spends no budget.",
            "Explain dcor_message() of the other view, and this call with its message.",
        )
    if asked is not None:
        raise ArgumentError("asked= is only used if other= is a view, and other= is a message.", "Omit asked=.")
    message = checked_message(other)
    if protocol not in (None, message.protocol):
        raise ArgumentError(
            f"This is a message of protocol {message.protocol!r}, not {protocol!r}.",
            "Omit protocol=, or ask for another message.",
        )
    y = metric_space(columns, "euclidean", nan_policy=nan_policy)
    n = checked_rows(curator, y, nan_policy=nan_policy)
    return message.align(keys_of(curator, keys, n), n), y


def request_message(
    curator: Curator,
    other: object,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Keys | None = None,
    **_: Any,
) -> Mapping[str, Any]:
    """Create the message of another view for `dcor_with`, after checking that its rows match this table's."""
    if not isinstance(other, PrivateFrame):
        return {}
    n = checked_rows(curator, metric_space(columns, "euclidean"))
    own = keys_of(curator, keys, n)
    terms = dict(asked) if isinstance(asked, dict) else {}
    if not {"columns", "epsilon"} <= terms.keys():
        raise ArgumentError(
            "other= is a view, and asked= with the arguments of its dcor_message() is missing.",
            "Write asked={'columns': 'dose', 'epsilon': 1}; the account of the other view pays that epsilon.",
        )
    if "protocol" in terms:
        raise ArgumentError("asked= must not contain 'protocol'.", "Use the argument protocol= instead.")
    terms["protocol"] = protocol or "angle"
    theirs = other.explain("dcor_message", **{**terms, "epsilon": 1}).findings  # whatever it pays
    check_rows(theirs["rows"], n, theirs.get(KEYS), own)
    if own is not None and theirs[KEYS] != fingerprint(own):
        raise ArgumentError(
            "The keys of both tables do not match one to one.", "Protect two tables that have the same keys."
        )
    return {"other": other.dcor_message(**terms), "asked": None}
