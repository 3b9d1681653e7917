"""Privacy losses: the cost of one measurement, determined by its request and never by data.

Every loss can be charged in each currency that a filter adds up: epsilon and delta, mu squared of Gaussian DP, and
the Rényi divergence of one order. Charges are rounded up.

References
----------
.. [4] Kairouz, Oh and Viswanath (2015). The composition theorem for differential privacy. arXiv:1311.0776.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from dfprivacy._privacy.conversions import (
    EPSILON_MAX,
    SCALE_MIN,
    float_above,
    gaussian_delta,
    laplace_mu,
    laplace_renyi,
    pure_mu,
    pure_renyi,
)
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Approximate", "BoundedRange", "Cube", "Gaussian", "Laplace", "PrivacyLoss", "Pure", "loss_from_dict"]


@dataclass(frozen=True, slots=True)
class _Loss:
    """Privacy loss of one measurement, which follows from what was requested and never from data."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, object]:
        """Return the loss as plain JSON values, which `loss_from_dict` reads back exactly."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind} | {name: _plain_value(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Pure(_Loss):
    """Loss of any `epsilon`-DP release: randomised response, sparse vector, permute-and-flip.

    Notes
    -----
    Randomised response is the worst of them in every currency [4]_.
    """

    kind = "pure"
    epsilon: Fraction

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    @property
    def delta(self) -> Fraction:
        """Delta of the loss, which is 0."""
        return Fraction(0)

    def mu_squared(self) -> Fraction | None:
        """Return the charge under Gaussian DP, mu squared; None if no finite charge suffices."""
        return _squared_or_none(pure_mu(float_above(self.epsilon)))

    def renyi(self, alpha: float) -> Fraction | None:
        """Return the charge under Rényi DP of order `alpha`; None if no finite charge suffices."""
        return _finite_or_none(pure_renyi(float_above(self.epsilon), alpha))


@dataclass(frozen=True, slots=True)
class BoundedRange(Pure):
    """Loss of a release whose log likelihood ratios span at most `epsilon`: the exponential mechanism.

    Also the report-noisy-max with Gumbel noise. At most `epsilon`-DP, and about as private in the long run as
    an epsilon/2-DP release.

    Notes
    -----
    Under Gaussian DP the worst pair has losses of plus and minus epsilon/2: randomised response at epsilon/2.
    Its concentrated privacy is rho = epsilon^2/8 (Cesar and Rogers 2021, arXiv:2004.07223).
    """

    kind = "bounded range"

    def mu_squared(self) -> Fraction | None:
        """Return the charge under Gaussian DP, mu squared; None if no finite charge suffices."""
        return _squared_or_none(pure_mu(float_above(self.epsilon / 2)))

    def renyi(self, alpha: float) -> Fraction | None:
        """Return the charge under Rényi DP of order `alpha`."""
        concentrated = Fraction(alpha) * self.epsilon**2 / 8
        pure = _finite_or_none(pure_renyi(float_above(self.epsilon), alpha))
        return concentrated if pure is None else min(concentrated, pure)


@dataclass(frozen=True, slots=True)
class Cube(Pure):
    """Loss of K-norm noise of the cube on a vector of integers: P(x) proportional to exp(-max abs(x_i) / b).

    Parameters
    ----------
    epsilon : Fraction
        Claim; ``scale * epsilon >= sensitivity`` is checked exactly.
    sensitivity : int
        Sensitivity in the norm of infinity, in grid steps.
    scale : float
        Scale b of the noise, in grid steps.
    """

    kind = "cube"
    sensitivity: int
    scale: float

    def __post_init__(self) -> None:
        Pure.__post_init__(self)  # the class that `super` means is not this one, which has slots
        _check_pure_noise(self.sensitivity, self.scale, self.epsilon)


@dataclass(frozen=True, slots=True)
class Laplace(_Loss):
    """Loss of independent discrete Laplace noise on a vector of integers.

    Parameters
    ----------
    sensitivity : int
        L1 sensitivity, in grid steps.
    scale : float
        Scale b of the noise, in grid steps.
    epsilon : Fraction
        Claim; ``scale * epsilon >= sensitivity`` is checked exactly.

    Notes
    -----
    The trade-off curve of discrete Laplace noise lies above that of continuous Laplace noise at
    e = sensitivity/b + 1/(4 b^2), so every charge of the latter at e is valid, and one coordinate that takes
    the whole shift is the worst (both from b = 4 on). Finer noise is charged as any pure release.
    """

    kind = "laplace"
    sensitivity: int
    scale: float
    epsilon: Fraction

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        _check_pure_noise(self.sensitivity, self.scale, self.epsilon)

    @property
    def delta(self) -> Fraction:
        """Delta of the loss, which is 0."""
        return Fraction(0)

    @property
    def _ratio_of_steps(self) -> Fraction:
        return self.sensitivity / Fraction(self.scale)

    @property
    def _continuous_epsilon(self) -> float:
        """Epsilon of continuous Laplace noise that is at most as private as this discrete noise."""
        return float_above(self._ratio_of_steps + 1 / (4 * Fraction(self.scale) ** 2))

    def mu_squared(self) -> Fraction | None:
        """Return the charge under Gaussian DP, mu squared; None if no finite charge suffices."""
        return _squared_or_none(
            laplace_mu(self._continuous_epsilon)
            if self.scale >= SCALE_MIN
            else pure_mu(float_above(self._ratio_of_steps))
        )

    def renyi(self, alpha: float) -> Fraction | None:
        """Return the charge under Rényi DP of order `alpha`; None if no finite charge suffices."""
        if self.scale >= SCALE_MIN:
            return _finite_or_none(laplace_renyi(self._continuous_epsilon, alpha))
        return _finite_or_none(pure_renyi(float_above(self._ratio_of_steps), alpha))


@dataclass(frozen=True, slots=True)
class Gaussian(_Loss):
    """Loss of independent discrete Gaussian noise on a vector of integers.

    Parameters
    ----------
    squared_sensitivity : int
        Squared L2 sensitivity, in squared grid steps.
    scale : float
        Parameter sigma of the noise, in grid steps, at least 4.
    dimension : int
        Number of coordinates.
    epsilon, delta : Fraction
        Claim; it is checked, with what discrete noise loses against continuous noise.

    Notes
    -----
    Rényi DP is that of continuous noise, exactly [5]_. Under Gaussian DP the noise counts as continuous noise
    of variance sigma^2 - 1/11, and the difference goes to the account's pool (`pooled`).

    References
    ----------
    .. [5] Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy.
       arXiv:2004.00010.
    """

    kind = "gaussian"
    squared_sensitivity: int
    scale: float
    dimension: int
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon, largest=EPSILON_MAX)
        _check_delta(self.delta)
        _check_noise(self.squared_sensitivity, self.scale, smallest=SCALE_MIN)
        if (
            self.dimension < 1
            or gaussian_delta(self.squared_sensitivity, self.scale, self.dimension, self.epsilon) > self.delta
        ):
            raise ArgumentError(
                f"Gaussian noise of scale {self.scale:g} on squared sensitivity {self.squared_sensitivity} "
                f"in {self.dimension} coordinates is not ({float(self.epsilon):g}, {float(self.delta):g})"
                "-differentially private.",
                "Take the scale from dfprivacy._privacy.calibrate.gaussian_scale.",
            )

    def mu_squared(self) -> Fraction:
        """Return the charge under Gaussian DP, mu squared."""
        return self.squared_sensitivity / (Fraction(self.scale) ** 2 - Fraction(1, 11))

    def renyi(self, alpha: float) -> Fraction:
        """Return the charge under Rényi DP of order `alpha`."""
        return Fraction(alpha) * self.squared_sensitivity / (2 * Fraction(self.scale) ** 2)


@dataclass(frozen=True, slots=True)
class Approximate(_Loss):
    """Loss of any other (`epsilon`, `delta`)-DP release.

    Notes
    -----
    Such a release is, but for an event of probability `delta`, an `epsilon`-DP one [4]_. The event goes to
    the account's pool.
    """

    kind = "approximate"
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        _check_delta(self.delta)

    def mu_squared(self) -> Fraction | None:
        """Return the charge under Gaussian DP, mu squared; None if no finite charge suffices."""
        return Pure(self.epsilon).mu_squared()

    def renyi(self, alpha: float) -> Fraction | None:
        """Return the charge under Rényi DP of order `alpha`; None if no finite charge suffices."""
        return Pure(self.epsilon).renyi(alpha)


PrivacyLoss = Laplace | Cube | Gaussian | Pure | BoundedRange | Approximate

_KINDS: dict[str, type[PrivacyLoss]] = {loss.kind: loss for loss in get_args(PrivacyLoss)}
_READERS: dict[Any, Callable[[Any], object]] = {"Fraction": Fraction, "float": float.fromhex, "int": int}


def loss_from_dict(d: Mapping[str, Any]) -> PrivacyLoss:
    """Construct a privacy loss from the result of its ``to_dict``.

    Raises
    ------
    ArgumentError
        If the loss is of no known kind, or its claim does not hold.

    Examples
    --------
    >>> loss_from_dict(Pure(Fraction(1, 3)).to_dict())
    Pure(epsilon=Fraction(1, 3))
    """
    if d.get("kind") not in _KINDS:
        raise ArgumentError(f"{d.get('kind')!r} is not a kind of privacy loss.", f"Use one of {', '.join(_KINDS)}.")
    loss: Callable[..., PrivacyLoss] = _KINDS[d["kind"]]
    values = {field.name: _READERS[field.type](d[field.name]) for field in fields(_KINDS[d["kind"]])}
    return loss(**values)


def _plain_value(value: float | Fraction) -> object:
    if isinstance(value, Fraction):
        return str(value)
    return value.hex() if isinstance(value, float) else value


def _check_epsilon(epsilon: Fraction, largest: float = inf) -> None:
    if not isinstance(epsilon, Fraction) or not 0 < epsilon <= largest:
        raise ArgumentError(
            f"A release cannot have epsilon {epsilon!r}.",
            "Give a Fraction above 0" + (f" and at most {largest}." if isfinite(largest) else "."),
        )


def _check_delta(delta: Fraction) -> None:
    if not isinstance(delta, Fraction) or not 0 < delta < 1:
        raise ArgumentError(f"A release cannot have delta {delta!r}.", "Give a fraction above 0 and below 1.")


def _check_noise(sensitivity: int, scale: float, *, smallest: float) -> None:
    if sensitivity < 1 or not (isfinite(scale) and scale > 0 and scale >= smallest):
        raise ArgumentError(
            f"Noise of scale {scale:g} at (squared) sensitivity {sensitivity} has no privacy loss that is known.",
            f"Give a sensitivity of at least one grid step, and a finite scale above 0 and at least {smallest:g}.",
        )


def _check_pure_noise(sensitivity: int, scale: float, epsilon: Fraction) -> None:
    _check_noise(sensitivity, scale, smallest=0.0)
    if Fraction(scale) * epsilon < sensitivity:
        raise ArgumentError(
            f"Noise of scale {scale:g} on sensitivity {sensitivity} is not {float(epsilon):g}-differentially "
            "private.",
            "Take the scale from dfprivacy._privacy.calibrate.laplace_scale.",
        )


def _finite_or_none(x: float) -> Fraction | None:
    return Fraction(x) if isfinite(x) else None


def _squared_or_none(mu: float) -> Fraction | None:
    return Fraction(mu) ** 2 if isfinite(mu) else None
