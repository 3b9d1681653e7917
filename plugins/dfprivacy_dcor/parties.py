"""Distance correlation between two parties that share rows and no columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dfprivacy import ArgumentError, PrivateFrame, Release, mechanism
from dfprivacy.plotting import axes
from dfprivacy_dcor.angles import PLACES, Angles, DistanceMessage, best_reach
from dfprivacy_dcor.inference import UNINFORMATIVE, level
from dfprivacy_dcor.mechanisms import names_of, rows_of
from dfprivacy_dcor.message import checked, read_keys
from dfprivacy_dcor.paper import ProjectionMessage, Projections
from dfprivacy_dcor.spaces import space, unit_vectors
from dfprivacy_dcor.statistics import Deviation, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator
    from dfprivacy_dcor.message import Message
    from dfprivacy_dcor.spaces import Space

__all__ = ["SharedCorrelation", "dcor_message", "dcor_with"]

Protocol = Literal["angle", "paper"]

_ENOUGH = 5000  # n epsilon², from which on a second harmonic pays
_FIRST = 0.7  # of the rows then speak of the first harmonic
_BLOCKS = 10
_SEEN = 4


@dataclass(frozen=True, kw_only=True, repr=False)
class SharedCorrelation(Release):
    """Dependence of one party's columns on another's; it may be shown to anybody.

    Attributes
    ----------
    squared : float
        Squared distance correlation R², from 0 to 1, corrected for what noise and sampling add.
    low, high : float
        Interval for what it would be without the Laplace noise of both parties; its coverage is guaranteed. What
        the noise of the message's rows does to it comes on top.
    confidence : float
        Its coverage.
    columns, other : tuple of str
        The columns of this table, and of the message.
    rows : int
        Number of rows n.
    notes : tuple of str
        What to know before trusting the number; an uninformative answer says so here.
    released, scales : tuple of float
        What it follows from, with the message: noisy distance covariance with the message's angles, distance
        deviation and mean distance of these columns, and the scales of their Laplace noise.
    """

    squared: float
    low: float
    high: float
    confidence: float
    columns: tuple[str, ...]
    other: tuple[str, ...]
    rows: int
    notes: tuple[str, ...]
    released: tuple[float, ...]
    scales: tuple[float, ...]

    _shown = ("squared", "low", "high", "columns", "other", "notes")

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate and its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax)
        ax.plot([self.low, self.high], [0, 0], color="tab:orange", lw=5, label=f"{self.confidence:.0%} interval")
        ax.plot(self.squared, 0, "o", color="black", label="estimate")
        what = f"squared distance correlation of {', '.join(self.columns)} and {', '.join(self.other)}"
        ax.set(xlim=(-0.02, 1.02), yticks=[], xlabel=what)
        ax.legend(fontsize="small", frameon=False)
        return ax


@mechanism(columns={"columns": "columns"}, local=True, delta=True)
def dcor_message(
    curator: Curator,
    columns: tuple[Column, ...],
    *,
    protocol: Protocol = "angle",
    harmonics: Sequence[int] | None = None,
    length: float = 1.0,
    blocks: int | None = None,
    split: bool = True,
    keys: Sequence[str | int] | None = None,
    seed: int = 0,
) -> DistanceMessage | ProjectionMessage:
    """Write a message from which another party learns how its own columns depend on these.

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
    keys : list of str or int, optional
        A public key for each row; default: rows correspond by position.
    seed : int
        Of the public directions and blocks.

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
    The distance deviation of all rows, whose sensitivity is 2(n-1)/n² times the diameter, takes 0.1 ε. What anybody
    computes from the message, as often as they like, is post-processing.

    References
    ----------
    .. [1] Vepakomma, Pushpita and Raskar (2021). Private measurement of nonlinear correlations between data hosted
       across multiple parties.
    .. [2] Kairouz, Oh and Viswanath (2016). Extremal mechanisms for local differential privacy. JMLR 17.

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
    x = space(columns, "euclidean")
    if x.metric == "discrete":
        raise ArgumentError("A message is about numbers.", "Name columns with bounds.")
    if protocol not in get_args(Protocol):
        raise ArgumentError(f"protocol={protocol!r} is unknown.", f"Use one of {get_args(Protocol)}.")
    if not isinstance(split, bool):
        raise ArgumentError(f"split={split!r} is neither True nor False.", "Use split=False for equation 3.")
    if protocol == "paper" and (harmonics is not None or length != 1):
        raise ArgumentError("harmonics= and length= are of angles.", "Leave them out with protocol='paper'.")
    n, p = rows_of(curator, x), len(columns)
    if harmonics is None:
        harmonics = (1, 3) if n * curator.epsilon**2 >= _ENOUGH and p == 1 and protocol == "angle" else (1,)
    odd = isinstance(harmonics, list | tuple) and all(type(k) is int and k > 0 and k % 2 for k in harmonics)
    if not odd or not harmonics or len(set(harmonics)) < len(harmonics):
        raise ArgumentError(f"harmonics={harmonics!r} must be odd whole numbers.", "Use (1,) or (1, 3).")
    if isinstance(length, bool) or not (isinstance(length, int | float) and 0 < length <= 1):
        raise ArgumentError(f"length={length!r} is not above 0 and at most 1.", "Use 1 unless you know better.")
    count = blocks if blocks is not None else (1 if p == 1 else _BLOCKS)
    if type(count) is not int or count < 1 or count * len(harmonics) * 4 > n or (p == 1 and count > 1):
        raise ArgumentError(
            f"{n} rows of {p} columns cannot be cut into {count!r} blocks for each harmonic.",
            "One block for one column; at least four rows in each.",
        )
    known = None if keys is None else read_keys(keys, n)
    units = np.ones((1, 1)) if p == 1 else unit_vectors(count, p, seed)
    turns = _turns(n, len(harmonics), count, np.random.default_rng(seed))
    if protocol == "paper":
        return _projections(curator, x, units, turns, known, split=split)
    directions = np.concatenate([units] * len(harmonics))
    wave = np.repeat(harmonics, count)
    maps = [Angles(columns, u, int(k), float(length)) for u, k in zip(directions, wave, strict=True)]
    said = curator.randomize(maps, reach=best_reach(0.9 * curator.epsilon), turns=turns, share="9/10")
    deviation = curator.measure(Deviation(x, n), share="1/10")
    return DistanceMessage(
        columns=names_of(x),
        rows=n,
        angles=said.values,
        turns=turns.astype(np.int64),
        directions=directions,
        harmonics=tuple(int(k) for k in wave),
        length=float(length),
        places=PLACES,
        reach=said.arc.reach,
        inside=said.arc.inside,
        outside=said.arc.outside,
        deviation=float(deviation.values[0]),
        deviation_scale=float(deviation.scales[0]),
        keys=known,
    )


def _projections(
    curator: Curator,
    x: Space,
    units: NDArray[np.float64],
    turns: NDArray[np.intp],
    keys: tuple[str | int, ...] | None,
    *,
    split: bool,
) -> ProjectionMessage:
    """Write the paper's message."""
    asked = Projections(x.columns, units, turns.astype(np.int64), split=split)
    said = curator.measure(asked, noise="gaussian", share="9/10")
    deviation = curator.measure(Deviation(x, len(turns)), share="1/10")
    return ProjectionMessage(
        columns=names_of(x),
        rows=len(turns),
        projections=said.values,
        turns=asked.turns,
        directions=units,
        scale=float(said.scales.flat[0]),
        deviation=float(deviation.values[0]),
        deviation_scale=float(deviation.scales[0]),
        keys=keys,
    )


def _turns(n: int, harmonics: int, count: int, chance: np.random.Generator) -> Any:
    """Deal the rows out to blocks at random, as evenly as can be, most of them to the first harmonic."""
    first = n if harmonics == 1 else round(_FIRST * n)
    dealt = np.concatenate(
        [np.arange(first) % count, count + np.arange(n - first) % max(1, count * (harmonics - 1))]
    )
    return chance.permutation(dealt).astype(np.intp)


@mechanism(columns={"columns": "columns"})
def dcor_with(
    curator: Curator,
    other: Message | PrivateFrame,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Sequence[str | int] | None = None,
    confidence: float = 0.95,
) -> SharedCorrelation:
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
    keys : list of str or int, optional
        The key of each row, if the message has keys. Else rows correspond by position.
    confidence : float
        Coverage of the interval.

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
    its features f changes by at most :math:`\frac{2}{n} \max_i |f_i - \bar f| \sqrt D` when one row does, the
    distance deviation and the mean distance by 2(n-1)/n² D; they are released with discrete Laplace noise. The
    message was paid for by the other party: somebody who is a row of both tables loses both epsilons in all. An
    estimate for nobody but oneself needs no budget: ``message.estimate``.

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
    level(confidence)
    y = space(columns, "euclidean")
    n = rows_of(curator, y)
    message = message.aligned(keys, n)
    shown = Shown(message, y)
    measured = curator.measure(shown)
    covariance, deviation, mean = measured.values.tolist()
    noise = measured.scales.tolist()
    squared = math.copysign(covariance**2, covariance) - 2 * noise[0] ** 2 - shown.sampling * max(mean, 0.0)
    low, high = _interval(message, shown.sampling, measured.values, measured.scales, confidence)
    whole = message.spread * max(deviation, 2 * noise[1])
    seen = message.deviation >= _SEEN * message.deviation_scale and deviation >= _SEEN * noise[1]
    return SharedCorrelation(
        squared=min(max(squared / whole, 0.0), 1.0),
        low=low,
        high=high,
        confidence=float(confidence),
        columns=names_of(y),
        other=message.columns,
        rows=n,
        notes=(*message.notes, *(() if seen else (UNINFORMATIVE,))),
        released=(covariance, deviation, mean),
        scales=tuple(noise),
    )


def _interval(
    message: Message, sampling: float, values: NDArray[np.float64], scales: NDArray[np.float64], confidence: float
) -> tuple[float, float]:
    """Combine intervals for the covariance, both deviations and the mean distance by Bonferroni's inequality."""
    room = math.log(4 / (1 - confidence))
    numbers = [*zip(values.tolist(), scales.tolist(), strict=True), (message.deviation, message.deviation_scale)]
    (t, t_up), (s_y, s_y_up), (m, m_up), (s_x, s_x_up) = (
        (max(v - b * room, 0.0), v + b * room) for v, b in numbers
    )
    least = max(t, 0.0) ** 2 - sampling * max(m_up, 0.0)
    most = max(t_up, 0.0) ** 2 - sampling * m
    low = min(max(least, 0.0) / (s_x_up * s_y_up), 1.0) if s_x_up > 0 and s_y_up > 0 else 0.0
    high = min(max(most, 0.0) / (s_x * s_y), 1.0) if s_x > 0 and s_y > 0 else 1.0
    return min(low, high), high


def message_of(
    curator: Curator,
    other: object,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Sequence[str | int] | None = None,
    confidence: float = 0.95,
) -> Mapping[str, Any]:
    """Ask another view for its message, once it is clear that it can be used; for `dcor_with`."""
    if not isinstance(other, PrivateFrame):
        return {}
    level(confidence)
    n = rows_of(curator, space(columns, "euclidean"))
    terms = dict(asked) if isinstance(asked, dict) else {}
    if not {"columns", "epsilon"} <= terms.keys():
        raise ArgumentError(
            "Another view was given, and not what it is to be asked.",
            "For example asked={'columns': 'dose', 'epsilon': 1}: its own account pays that epsilon.",
        )
    if "protocol" in terms:
        raise ArgumentError("asked= names a protocol.", "Name it by protocol=.")
    if other.schema.size != n:
        raise ArgumentError(
            "The tables do not have the same public number of rows.",
            "Both parties need the same rows, aligned by position or by keys.",
        )
    if (keys is None) != (terms.get("keys") is None):
        raise ArgumentError(
            "Only one of both tables has keys.",
            "Give keys= and asked={'keys': ...}, or neither and align the rows.",
        )
    if keys is not None and set(read_keys(keys, n)) != set(read_keys(terms["keys"], n)):
        raise ArgumentError("The keys of both tables do not match one to one.", "Join the tables first.")
    return {"other": other.dcor_message(**terms, protocol=protocol or "angle"), "asked": None}
