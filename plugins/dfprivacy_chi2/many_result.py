"""What the test of many 2 x 2 tables returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import NanPolicy, Release
from dfprivacy.plotting import axes, below, forest_height, ink, wrapped

if TYPE_CHECKING:
    from dfprivacy_chi2.compared import Score, Statistic

__all__ = ["DEVIATION", "Chi2Many", "Many"]

Many = Literal["svt", "select"]
DEVIATION = math.sqrt(2)
"""Standard deviation of a Laplace variable of scale 1."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Chi2Many(Release):
    """Result of private tests of many columns.

    Attributes
    ----------
    discoveries : tuple of str
        The columns that differ between the groups, with a family-wise error of `alpha`.
    answered : tuple of str
        The columns that were tested, in order: those up to the last rejection allowed, or those selected.
    differences : tuple of float
        ``"select"``: the noisy absolute difference of shares of each column in `answered`; ``"svt"`` tells none.
    norms : tuple of float
        ``"select"`` by the unit circle: the noisy norm of each, in place of its difference.
    pvalues : tuple of float
        ``"select"``: the p-value of each, not corrected for many tests.
    thresholds : tuple of float
        What the noisy absolute difference, or the noisy norm, of each in `answered` had to exceed.
    tests : int
        Number of columns that may be tested; each is, at level `alpha` / `tests`.
    alpha : float
        Probability, at most, of any false rejection.
    method : {"svt", "select"}
        How it was tested.
    max_rejections : int
        Rejections that were paid for.
    noise_standard_error : tuple of float
        Standard deviation of the noise in a comparison, in units of the statistic: of the threshold and of each
        value (``"svt"``), or of each value.
    sizes : tuple of int
        Rows in each group.
    by, groups, rate, nan_policy
        What was compared, what was known of the shares, and what became of rows without a value.
    notes : tuple of str
        What to know before trusting the numbers.
    statistic : {"difference", "unitcircle"}
        What was compared with the threshold.
    score : {"statistic", "distance"}
        What ``"select"`` selected by.
    tau : float or None
        The value of chi² that the circle and the distance are about; None if there was neither.
    max_tests : int or None
        How many columns were to be tested at most.
    """

    discoveries: tuple[str, ...]
    answered: tuple[str, ...]
    differences: tuple[float, ...]
    pvalues: tuple[float, ...]
    thresholds: tuple[float, ...]
    tests: int
    alpha: float
    method: Many
    max_rejections: int
    noise_standard_error: tuple[float, ...]
    sizes: tuple[int, ...]
    by: str
    groups: tuple[Any, ...]
    rate: Any
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    norms: tuple[float, ...] = ()
    statistic: Statistic = "difference"
    score: Score = "statistic"
    tau: float | None = None
    max_tests: int | None = None

    _shown = ("discoveries", "tests", "alpha", "method", "max_rejections", "sizes", "notes")

    def _rows(self) -> list[tuple[str, str]]:
        rows = super()._rows()
        return rows if self.discoveries else [("discoveries", "none"), *rows]

    def _sentence(self) -> str:
        """Say which columns differ."""
        of = " and ".join(f"{self._noun(self.by)} = {group}" for group in self.groups)
        found = self._noun(*self.discoveries) if self.discoveries else "none"
        differ = "differs" if len(self.discoveries) < 2 else "differ"  # noqa: PLR2004
        tested = "" if self.discoveries else f" ({self._noun(*self.answered)} tested)"
        level = f"at the level {self.alpha:g} for all together"
        return f"Of {self.tests} columns, {found} {differ} between {of}{tested}, {level}."

    def _tidy(self) -> list[dict[str, Any]]:
        """State what was tested, against what, and what was decided."""
        numbers = {"estimate": self.norms or self.differences or None, "threshold": self.thresholds}
        decided = {"pvalue": self.pvalues or None, "rejected": [name in self.discoveries for name in self.answered]}
        return [{"term": self.answered, **numbers, **decided, "n": sum(self.sizes)}]

    def plot(self, ax: Any = None) -> Any:
        """Draw what each column that was tested had to exceed, and which did."""
        ax = axes(ax, height=forest_height(len(self.answered)))
        places = np.arange(len(self.answered))
        ax.plot(self.thresholds, places, "|", color="tab:red", ms=9, mew=2, label="threshold")
        word = "norm" if self.statistic == "unitcircle" else "difference"
        if values := self.norms or self.differences:
            spread = self.noise_standard_error[-1]
            ax.errorbar(values, places, xerr=spread, fmt="o", color=ink(ax), label=f"noisy {word}")
        endings = {True: ", discovered", False: ""}
        names = [f"{self._called(name)}{endings[name in self.discoveries]}" for name in self.answered]
        what = f"{'norm' if word == 'norm' else 'absolute difference of shares'} by {self._called(self.by)}"
        ax.set(yticks=places, yticklabels=names, ylim=(len(places) - 0.4, -0.6), xlabel=wrapped(what, 48))
        ax.set(xlim=(0, None), title=f"{len(self.discoveries)} found")
        below(ax)
        return ax
