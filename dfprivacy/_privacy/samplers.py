"""Samplers of discrete noise for integer vectors, and of randomised responses for local privacy.

A sum is an integer vector: its unit is the step 2^-k of a public binary grid. Discrete Laplace or discrete
Gaussian noise is added to the integers, drawn by OpenDP from the operating system's secure source, or noise of the
cube, made from it; so the privacy claim does not depend on floating-point rounding [1]_.

Messages of the local model (`dfprivacy.local`) need uniform integers only, and selections exact coins; both
come from the same source.

This is the only module that imports OpenDP, and it does so when the first noise is drawn: importing OpenDP
takes half a second.

References
----------
.. [1] Mironov (2012). On significance of the least significant bits for differential privacy. CCS.
.. [2] Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy. arXiv:2004.00010.
.. [3] McKenna and Sheldon (2020). Permute-and-flip. NeurIPS.
"""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, lru_cache
from importlib.metadata import version
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from dfprivacy._privacy.calibrate import SUM_MAX
from dfprivacy._privacy.draws import cube_noise, draw_bernoulli, noise_of_zeros
from dfprivacy._privacy.response import check_labels
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._privacy.response import Arc

    Choose = Callable[[NDArray[np.int64]], NDArray[np.bool_]]

__all__ = [
    "HIDDEN",
    "OpenDPSampler",
    "Sampler",
    "check_noise_arguments",
    "draw_uniform",
    "reveal_step_by_step",
    "sampler",
    "use_sampler",
]

K = TypeVar("K", bound="Hashable")

HIDDEN = -(2**63)
"""Value that stands in place of a noisy number that is not revealed."""

_PIECE = 4096  # draws of a thread, which take a hundred times as long as starting it


class Sampler(Protocol):
    """Interface of samplers, which add noise to integer vectors."""

    @property
    def name(self) -> str:
        """Name of the sampler, as releases report it."""

    @property
    def private(self) -> bool:
        """Whether the noise gives privacy: noise from a known seed does not."""

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add independent discrete Laplace noise: P(x) proportional to exp(-abs(x) / scale)."""

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add independent discrete Gaussian noise: P(x) proportional to exp(-x^2 / (2 scale^2))."""

    def revealed(self, values: NDArray[np.int64], scale: float, choose: Choose) -> NDArray[np.int64]:
        """Add independent discrete Laplace noise, and reveal chosen values; see `reveal_step_by_step`."""

    def arc(self, labels: NDArray[np.int64], arc: Arc) -> NDArray[np.int64]:
        """Draw a randomised response to each label independently, by the law `arc`."""

    def cube(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add noise x to a vector, with P(x) proportional to exp(-max abs(x_i) / scale)."""

    def uniform_below(self, n: int) -> int:
        """Draw one of 0, ..., n-1, all equally likely."""

    def noisy_top_k(self, values: NDArray[np.int64], scale: float, k: int, *, flip: bool) -> list[int]:
        """Draw k positions one after the other, best first, by permute-and-flip or by the exponential mechanism.

        With the latter, a position is drawn with probability proportional to exp(value / scale).
        """

    def sparse_vector(self, gaps: NDArray[np.int64], scales: tuple[float, float], most: int) -> NDArray[np.bool_]:
        """Return for each value in turn whether it reaches its threshold with noise; stop after `most` that do.

        A gap is the value minus the threshold. The noise is Laplace: one for all thresholds, of the first
        scale, and one for each value, of the second.
        """

    def permutation_rank(self, values: NDArray[np.int64], scale: float) -> int:
        """Return the rank of the first value among all values after Laplace noise is added; ties are random."""

    def permutation_decision(self, values: NDArray[np.int64], scale: float, most: int) -> bool:
        """Return whether the `permutation_rank` is at most `most`, and nothing else."""

    def discover(self, counts: Mapping[K, int], scale: float, threshold: int) -> dict[K, int]:
        """Add Laplace noise to the counts of keys, and return the keys whose noisy count reaches a threshold."""

    def survey(self, counts: Mapping[K, int], scale: float, threshold: int) -> dict[K, int]:
        """Add Gaussian noise to the counts of keys, and return the keys whose noisy count reaches a threshold."""

    def sparse_counts(self, counts: Mapping[int, int], size: int, scale: float, threshold: int) -> dict[int, int]:
        """Add Laplace noise to the counts of `size` keys, most of them 0; return counts that reach a threshold."""

    def generator(self) -> np.random.Generator:
        """Return a generator for randomness other than noise, such as the rearrangements of a test."""


def check_noise_arguments(values: NDArray[np.int64], scale: float) -> None:
    """Raise an error unless the values are clamped 64-bit integers and the scale is finite and positive.

    Parameters
    ----------
    values : ndarray of int64
        Sums in grid steps, of any shape, at most `SUM_MAX` in absolute value.
    scale : float
        Scale of the noise in grid steps, finite and above 0.

    Raises
    ------
    ArgumentError
        If they are not; a scale of 0 would release the values themselves. The message names no value.
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        raise ArgumentError(
            "Noise is added to arrays of 64-bit integers only.",
            "Round the sums to multiples of the grid step first.",
        )
    if not (isfinite(scale) and scale > 0):
        raise ArgumentError(f"Noise of scale {scale:g} gives no privacy.", "The scale must be finite and above 0.")
    if values.size and (values.min() < -SUM_MAX or values.max() > SUM_MAX):
        raise ArgumentError(f"Sums must be clamped to {SUM_MAX} grid steps.", "Clamp them before adding noise.")


def reveal_step_by_step(
    shape: tuple[int, ...], choose: Choose, noisy: Callable[[NDArray[np.bool_]], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Reveal noisy values in steps, where `choose` selects the next ones given those revealed so far.

    Parameters
    ----------
    shape : tuple of int
        Of all the numbers.
    choose : callable
        Given those that were shown so far, with `HIDDEN` in place of the others, which to show next: an array of
        booleans. Nothing new ends it.
    noisy : callable
        Given which, their noisy values. Each is asked for once.

    Returns
    -------
    ndarray of int64
        The same array in the end. It is a function of all noisy numbers, whether the others were ever drawn or not.
    """
    known, shown = np.full(shape, HIDDEN, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    while (more := choose(known.copy()) & ~shown).any():
        known[more] = noisy(more)
        shown |= more
    return known


class FromLaplace:
    """Mixin of methods that derive other noise and choices from a sampler's Laplace noise; see `Sampler`."""

    def revealed(self: Sampler, values: NDArray[np.int64], scale: float, choose: Choose) -> NDArray[np.int64]:
        """Draw noise for all values, and reveal the chosen noisy values."""
        noisy = self.laplace(values, scale)
        return reveal_step_by_step(values.shape, choose, lambda more: noisy[more])

    def cube(self: Sampler, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add noise x to a vector, with P(x) proportional to exp(-max abs(x_i) / scale)."""
        check_noise_arguments(values, scale)
        return values + cube_noise(values.size, scale, self.laplace, self.uniform_below).reshape(values.shape)

    def sparse_vector(
        self: Sampler, gaps: NDArray[np.int64], scales: tuple[float, float], most: int
    ) -> NDArray[np.bool_]:
        """Return for each value in turn whether it reaches its threshold with noise; stop after `most` that do."""
        moved = self.laplace(np.zeros(1, dtype=np.int64), scales[0])  # once, for all
        reached = self.laplace(gaps, scales[1]) >= moved
        positives = np.flatnonzero(reached)
        return reached[: positives[most - 1] + 1] if positives.size >= most else reached

    def permutation_rank(self: Sampler, values: NDArray[np.int64], scale: float) -> int:
        """Return the rank of the first value among all values after Laplace noise is added: 1 for the largest."""
        first, *others = self.laplace(values, scale)
        larger, equal = int(np.sum(others > first)), int(np.sum(others == first))
        return 1 + larger + int(self.generator().integers(equal + 1))

    def permutation_decision(self: Sampler, values: NDArray[np.int64], scale: float, most: int) -> bool:
        """Return whether the `permutation_rank` is at most `most`, and nothing else."""
        return self.permutation_rank(values, scale) <= most

    def discover(self: Sampler, counts: Mapping[K, int], scale: float, threshold: int) -> dict[K, int]:
        """Add Laplace noise to the counts of keys, and return the keys whose noisy count reaches a threshold."""
        return _keys_reaching(counts, self.laplace(_counts_as_array(counts), scale), threshold)

    def survey(self: Sampler, counts: Mapping[K, int], scale: float, threshold: int) -> dict[K, int]:
        """Add Gaussian noise to the counts of keys, and return the keys whose noisy count reaches a threshold."""
        return _keys_reaching(counts, self.gaussian(_counts_as_array(counts), scale), threshold)

    def sparse_counts(
        self: Sampler, counts: Mapping[int, int], size: int, scale: float, threshold: int
    ) -> dict[int, int]:
        """Add Laplace noise to the counts of all keys, zeros too, and return those that reach a threshold."""
        own = _keys_reaching(counts, self.laplace(_counts_as_array(counts), scale), threshold)
        zeros = noise_of_zeros(counts, size, scale, threshold, self.laplace, self.uniform_below)
        return dict(sorted({**own, **zeros}.items()))


def _counts_as_array(counts: Mapping[K, int]) -> NDArray[np.int64]:
    return np.array([*counts.values()], dtype=np.int64)


def _keys_reaching(counts: Mapping[K, int], noisy: NDArray[np.int64], threshold: int) -> dict[K, int]:
    """Return the noisy counts that reach a threshold, with their keys."""
    return {key: count for key, count in zip(counts, noisy.tolist(), strict=True) if count >= threshold}


class OpenDPSampler(FromLaplace):
    """Discrete noise from OpenDP, which draws it exactly from the operating system's secure source [2]_.

    Examples
    --------
    >>> OpenDPSampler().laplace(np.zeros(3, dtype=np.int64), 2.5).dtype
    dtype('int64')
    """

    private = True

    @cached_property
    def name(self) -> str:
        """OpenDP's version, and the noise that it draws."""
        return (
            f"OpenDP {version('opendp')}: discrete Laplace and Gaussian from the operating system's secure source"
        )

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add independent discrete Laplace noise; see `check_noise_arguments` for what is refused."""
        return _add_opendp_noise("laplace", values, scale)

    def revealed(self, values: NDArray[np.int64], scale: float, choose: Choose) -> NDArray[np.int64]:
        """Draw noise for the chosen values only: the noise is independent, so its law is the same."""
        return reveal_step_by_step(values.shape, choose, lambda more: self.laplace(values[more], scale))

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add independent discrete Gaussian noise; see `check_noise_arguments` for what is refused."""
        return _add_opendp_noise("gaussian", values, scale)

    def arc(self, labels: NDArray[np.int64], arc: Arc) -> NDArray[np.int64]:
        """Draw randomised responses with integers from the operating system's secure source."""
        check_labels(labels, arc)
        return arc.sample(labels, draw_uniform(arc.weight, labels.size).reshape(labels.shape))

    def noisy_top_k(self, values: NDArray[np.int64], scale: float, k: int, *, flip: bool) -> list[int]:
        """Draw k positions, best first, by permute-and-flip or by the exponential mechanism.

        Each position has a coin, heads with probability exp(-gap / scale), the gap being how far its value is below
        the best that is left. Permute-and-flip [3]_ takes the first heads in a random order, which is any one of
        all heads; the exponential mechanism the first heads among positions drawn with replacement. OpenDP compares
        exponential or Gumbel variables, to the same end, and takes some fifty times as long for thousands.
        """
        check_noise_arguments(values, scale)
        left: Sequence[int] = range(values.size)
        chosen: list[int] = []
        others = values.ravel()
        while True:
            gaps = (others.max() - others).view(np.uint64)  # which wraps around to the difference, up to 2^63
            at = self._permute_and_flip(gaps, scale) if flip else _draw_position(gaps, scale)
            chosen.append(left[at])
            if len(chosen) == k:
                return chosen
            left, others = [*left[:at], *left[at + 1 :]], np.delete(others, at)

    def _permute_and_flip(self, gaps: NDArray[np.uint64], scale: float) -> int:
        up = np.flatnonzero(draw_bernoulli(gaps, scale))  # the best is, always
        return int(up[self.uniform_below(up.size)])

    def uniform_below(self, n: int) -> int:
        """Draw one of 0, ..., n-1 from the operating system's secure source."""
        return secrets.randbelow(n)

    def generator(self) -> np.random.Generator:
        """Return a NumPy generator with a secret seed."""
        return np.random.default_rng(secrets.randbits(256))


def _draw_position(gaps: NDArray[np.uint64], scale: float) -> int:
    while True:
        at = draw_uniform(gaps.size, gaps.size)
        if (up := np.flatnonzero(draw_bernoulli(gaps[at], scale))).size:
            return int(at[up[0]])


def draw_uniform(below: int, size: int) -> NDArray[np.int64]:
    """Draw integers from 0 to `below` - 1, all equally likely, from the operating system's secure source.

    Parameters
    ----------
    below : int
        From 1 to 2^63.
    size : int
        How many.

    Returns
    -------
    ndarray of int64 of shape (size,)
        The numbers. Words of as few bits as will do are drawn, and those that are too large thrown away.
    """
    bits = max(1, (below - 1).bit_length())
    kept: list[NDArray[np.uint64]] = []
    missing = size
    while missing > 0:
        words = np.frombuffer(os.urandom(8 * 2 * missing), dtype=np.uint64) >> np.uint64(64 - bits)
        kept.append(words[words < below][:missing])
        missing -= len(kept[-1])
    return np.concatenate([np.zeros(0, dtype=np.uint64), *kept]).astype(np.int64)


def _add_opendp_noise(kind: str, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    check_noise_arguments(values, scale)
    if not values.size:
        return values.copy()

    def add_noise_to_part(part: NDArray[np.int64], thread: int) -> NDArray[np.int64]:
        return np.array(_opendp_measurement(kind, float(scale), thread)(part), dtype=np.int64)

    threads = 1 if values.size < _PIECE else min(_usable_cores(), 1 + values.size // _PIECE)
    if threads == 1:
        return add_noise_to_part(values.ravel(), 0).reshape(values.shape)
    parts = np.array_split(values.ravel(), threads)
    with ThreadPoolExecutor(len(parts)) as pool:  # the draws are independent, so whoever makes them
        return np.concatenate([*pool.map(add_noise_to_part, parts, range(len(parts)))]).reshape(values.shape)


def _usable_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=64)
def _opendp_measurement(kind: str, scale: float, thread: int = 0) -> Callable[[NDArray[np.int64]], list[int]]:  # noqa: ARG001
    """Return OpenDP's mechanism for a kind of noise and a scale, cached for each thread."""
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    made: Any
    if kind == "laplace":
        made = measurements.make_laplace(domain, metrics.l1_distance(T="i64"), scale)
    else:
        made = measurements.make_gaussian(domain, metrics.l2_distance(T="f64"), scale)
    return made  # type: ignore[no-any-return]


_OPENDP: Sampler = OpenDPSampler()
_SAMPLER: ContextVar[Sampler] = ContextVar("dfprivacy sampler", default=_OPENDP)


def sampler() -> Sampler:
    """Return the sampler in use: OpenDP, unless a test has replaced it."""
    return _SAMPLER.get()


@contextmanager
def use_sampler(replacement: Sampler) -> Iterator[Sampler]:
    """Replace the sampler within a ``with`` block, for `dfprivacy.testing` and the audit."""
    token = _SAMPLER.set(replacement)
    try:
        yield replacement
    finally:
        _SAMPLER.reset(token)
