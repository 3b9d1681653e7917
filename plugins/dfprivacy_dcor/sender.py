"""One of two parties that share rows and no columns: it writes a message, and pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, NanPolicy, Range, mechanism
from dfprivacy.local import Messages
from dfprivacy.statistics import gaussian_scale
from dfprivacy_dcor.angles import HARMONIC_MAX, PLACES, Angles, DistanceMessage, best_reach
from dfprivacy_dcor.message import Keys, fingerprint, keys_of
from dfprivacy_dcor.paper import Calibration, ProjectionMessage, Projections, kenthapadi
from dfprivacy_dcor.spaces import ROWS_MIN, rows_of, space, unit_vectors
from dfprivacy_dcor.statistics import Deviation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator
    from dfprivacy.release import NoisyValue

__all__ = ["Protocol", "dcor_message", "rows_and_keys"]

Protocol = Literal["angle", "paper"]

_ENOUGH = 5000  # n epsilon², from which on a second harmonic pays
_FIRST = 0.7  # of the rows then speak of the first harmonic
_BLOCKS = 10
KEYS = "fingerprint of the keys"


@dataclass(frozen=True)
class Written:
    """What a message consists of."""

    harmonics: tuple[int, ...]
    directions: NDArray[np.float64]
    turns: NDArray[np.int64]
    messages: Messages | NoisyValue
    deviation: NoisyValue
    keys: tuple[str | int, ...] | None


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
) -> Written:
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
    calibration : {"analytic", "kenthapadi"}
        Of the Gaussian noise of ``"paper"``: the least that there is, or that of the paper's appendix D [3]_, a
        quarter to a third wider and no more private, for comparison.
    keys : str or list of str or int, optional
        A public column of whole numbers or text, all different, by which the other party finds the same rows in its
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
    The distance deviation of all complete rows, times their share, whose sensitivity is 2(n-1)/n² times the
    diameter, and this share take 0.1 ε. What anybody computes from the message, as often as they like, is
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
    x = space(columns, "euclidean", nan_policy=nan_policy)
    if x.metric == "discrete":
        raise ArgumentError("A message is about numbers.", "Name columns with bounds.")
    if protocol == "paper" and (harmonics is not None or length != 1):
        raise ArgumentError("harmonics= and length= are of angles.", "Leave them out with protocol='paper'.")
    if protocol == "angle" and calibration != "analytic":
        raise ArgumentError("calibration= is of Gaussian noise.", "Use it with protocol='paper'.")
    n, p = rows_of(curator, x, nan_policy=nan_policy), len(columns)
    if harmonics is None:
        harmonics = (1, 3) if n * curator.epsilon**2 >= _ENOUGH and p == 1 and protocol == "angle" else (1,)
    odd = isinstance(harmonics, list | tuple) and all(
        type(k) is int and 0 < k <= HARMONIC_MAX and k % 2 for k in harmonics
    )
    if not odd or not harmonics or len(set(harmonics)) < len(harmonics):
        raise ArgumentError(f"harmonics={harmonics!r} must be odd whole numbers.", "Use (1,) or (1, 3).")
    count = blocks if blocks is not None else (1 if p == 1 else _BLOCKS)
    if count * len(harmonics) * ROWS_MIN > n or (p == 1 and count > 1):
        raise ArgumentError(
            f"{n} rows of {p} columns cannot be cut into {count!r} blocks for each harmonic.",
            "One block for one column; at least four rows in each.",
        )
    known = keys_of(curator, keys, n)
    units = np.ones((1, 1)) if p == 1 else unit_vectors(count, p, seed)
    rng = np.random.default_rng(seed)
    turns = _turns(n, len(harmonics), count, rng)
    messages: Messages | NoisyValue
    if protocol == "paper":
        excess = 1.0
        if calibration == "kenthapadi":
            price = 0.9 * curator.epsilon, 0.9 * curator.delta
            excess = kenthapadi(*price) / gaussian_scale(*price)
        projections = Projections(columns, units, turns.astype(np.int64), split=split, omit=x.omit, excess=excess)
        messages = curator.measure(projections, noise="gaussian", share="9/10")
    else:
        units, wave = np.concatenate([units] * len(harmonics)), np.repeat(harmonics, count)
        maps, whose = _maps(columns, units, wave, length, turns, rng if x.omit else None)
        messages = curator.randomize(maps, reach=best_reach(0.9 * curator.epsilon), turns=whose, share="9/10")
        harmonics = tuple(int(k) for k in wave)
    deviation = curator.measure(Deviation(x, n), share="1/10")
    return Written(tuple(harmonics), units, turns.astype(np.int64), messages, deviation, known)


@dcor_message.concludes
def _(
    measured: Written,
    columns: tuple[Column, ...],
    *,
    length: float,
) -> DistanceMessage | ProjectionMessage:
    """Put it all together."""
    messages, (deviation, *complete) = measured.messages, measured.deviation.values.tolist()
    deviation_scale, *complete_scale = measured.deviation.scales.tolist()
    common: dict[str, Any] = {
        "columns": tuple(column.name for column in columns),
        "rows": len(measured.turns),
        "turns": measured.turns,
        "directions": measured.directions,
        "deviation": deviation,
        "deviation_scale": deviation_scale,
        "complete": complete[0] if complete else None,
        "complete_scale": complete_scale[0] if complete else None,
        "keys": measured.keys,
    }
    if not isinstance(messages, Messages):
        return ProjectionMessage(projections=messages.values, scale=float(messages.scales.flat[0]), **common)
    return DistanceMessage(
        angles=messages.values,
        harmonics=measured.harmonics,
        length=length,
        places=PLACES,
        reach=messages.arc.reach,
        inside=messages.arc.inside,
        outside=messages.arc.outside,
        **common,
    )


def rows_and_keys(
    curator: Curator, columns: tuple[Column, ...], *, keys: Keys | None = None, **_: Any
) -> Mapping[str, Any]:
    """Say which rows the message would be about, so that both parties can compare them first; for ``explain``."""
    n = rows_of(curator, space(columns, "euclidean"))
    known = keys_of(curator, keys, n)
    return {"rows": n} if known is None else {"rows": n, KEYS: fingerprint(known)}


def _maps(
    columns: tuple[Column, ...],
    directions: NDArray[np.float64],
    harmonics: NDArray[np.intp],
    length: float,
    turns: NDArray[np.intp],
    coins: np.random.Generator | None,
) -> tuple[list[Angles], NDArray[np.intp]]:
    """Give the maps to angles, and which of them each row's message is of.

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


def _turns(n: int, harmonics: int, count: int, rng: np.random.Generator) -> Any:
    """Deal the rows out to blocks at random, as evenly as can be, most of them to the first harmonic."""
    first = n if harmonics == 1 else round(_FIRST * n)
    dealt = np.concatenate(
        [np.arange(first) % count, count + np.arange(n - first) % max(1, count * (harmonics - 1))]
    )
    return rng.permutation(dealt).astype(np.intp)
