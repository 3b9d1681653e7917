"""The other of two parties: what it may show of a message and its own columns, and what it learns for itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from dfprivacy import ArgumentError, PrivateFrame, Probability, Range, mechanism
from dfprivacy_dcor.estimate import Estimate
from dfprivacy_dcor.inference import UNINFORMATIVE
from dfprivacy_dcor.message import Keys, Message, checked, fingerprint, keys_of
from dfprivacy_dcor.results import SharedCorrelation
from dfprivacy_dcor.sender import KEYS, Protocol
from dfprivacy_dcor.spaces import rows_of, space
from dfprivacy_dcor.statistics import Shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, Holder
    from dfprivacy_dcor.spaces import Space

__all__ = ["dcor_with", "estimate_of", "message_of"]

_SEEN = 4


@mechanism(columns={"columns": "columns", "keys": "public"})
def dcor_with(
    curator: Curator,
    other: Message | PrivateFrame,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Keys | None = None,
    confidence: Probability = 0.95,
    permutations: Annotated[int, Range(1)] = 999,  # noqa: ARG001 - of `estimate_of`
    seed: Annotated[int, Range(0)] | None = None,  # noqa: ARG001
) -> SharedCorrelation:
    r"""Measure how columns depend on those of another party: for anybody to see, or for oneself.

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
    confidence : float
        Coverage of the interval.
    permutations : int
        Without an epsilon: how many, for the p-value.
    seed : int, optional
        Of the permutations.

    Returns
    -------
    SharedCorrelation or Estimate
        The squared distance correlation, which may be shown to anybody. Without an epsilon, a
        `dfprivacy_dcor.Estimate` with an exact p-value for whoever holds this table, and nobody else: it is a
        function of the rows without noise.

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
    message was paid for by the other party: somebody who is a row of both tables loses both epsilons in all.

    **Without an epsilon**, and on a view without a ``default_epsilon``, the answer is ``message.estimate`` of the
    view's rows, each column scaled by its bounds: not private for them, free, not kept in the ledger, and no
    release. The rows of the other party stay protected, as it is post-processing of their message. Whoever wants to
    show a result asks with an epsilon.

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

    Without an epsilon, for Bob's eyes only:

    >>> bob.dcor_with(alice.dcor_message("dose", epsilon=2), "effect", permutations=99).pvalue
    0.01
    >>> float(bob.budget.spent)
    2.0
    """
    message, y = _met(curator, other, columns, asked, protocol, keys)
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
        confidence=confidence,
        columns=y.names,
        other=message.columns,
        rows=message.rows,
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


def estimate_of(
    holder: Holder,
    other: Message | PrivateFrame,
    columns: tuple[Column, ...],
    *,
    asked: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    keys: Keys | None = None,
    permutations: int = 999,
    seed: int | None = None,
    **_: Any,
) -> Estimate:
    """Estimate the same for whoever holds the table, without noise; for `dcor_with`."""
    message, y = _met(holder, other, columns, asked, protocol, keys)
    own = y.coordinates(holder.rows(*y.columns))
    return message.estimate(own, keys=message.keys, permutations=permutations, seed=seed)


def _met(
    curator: Curator,
    other: object,
    columns: tuple[Column, ...],
    asked: object,
    protocol: Protocol | None,
    keys: Keys | None,
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
    y = space(columns, "euclidean")
    n = rows_of(curator, y)
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
