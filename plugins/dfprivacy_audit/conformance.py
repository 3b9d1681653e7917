"""The list of conformance checks of a mechanism, and the class of a check, which names the faults it catches."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dfprivacy.errors import ArgumentError
from dfprivacy_audit import calibration, claims, discipline, elsewhere
from dfprivacy_audit.cases import Case, cases_of
from dfprivacy_audit.discipline import Audit
from dfprivacy_audit.harness import Failed, Skipped, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dfprivacy.mechanism import Mechanism

__all__ = ["CHECKS", "Check", "Outcome", "catalogue", "check_mechanism"]

SAMPLES = 30_000

CHECKS: dict[str, Callable[[Audit], str]] = {
    name: check
    for room in (discipline, claims, calibration, elsewhere)
    for name, check in vars(room).items()
    if inspect.isfunction(check) and check.__module__ == room.__name__ and not name.startswith("_")
}
"""The checks by name: every public function of their modules. The first sentence of each says what it catches."""


def _fault_text(check: Callable[[Audit], str]) -> str:
    sentence, *_ = inspect.cleandoc(check.__doc__ or "").split("\n\n")
    return " ".join(sentence.split()).removeprefix("Catch ").removesuffix(".")


@dataclass(frozen=True)
class Outcome:
    """Outcome of one check of a mechanism in a case.

    Attributes
    ----------
    mechanism, case, check : str
        What was checked.
    status : {"passed", "failed", "skipped", "expected"}
        ``"expected"``: it failed, as was said beforehand.
    detail : str
        What was seen, or what is wrong.
    seconds : float
        Time it took.
    loss, charge : float or None
        Of the exact audit: the largest loss found, and the epsilon charged.
    """

    mechanism: str
    case: str
    check: str
    status: Literal["passed", "failed", "skipped", "expected"]
    detail: str
    seconds: float
    loss: float | None = None
    charge: float | None = None

    @property
    def tightness(self) -> float | None:
        """Largest privacy loss that was found, as a share of the charged epsilon."""
        return self.loss / self.charge if self.loss is not None and self.charge else None


@dataclass(frozen=True)
class Check:
    """Check of one mechanism in one case, which any test runner can call.

    Attributes
    ----------
    name : str
        Its name in `CHECKS`.
    catches : str
        What it catches.
    audit : Audit
        The mechanism and its case.
    expected : str
        Why it is expected to fail; empty if it is not.
    """

    name: str
    catches: str
    audit: Audit
    expected: str = ""

    def __call__(self) -> str:
        """Run the check; return a description of what was found, or raise an error if the mechanism fails.

        Raises
        ------
        AssertionError
            If the mechanism does not pass; the text says what is wrong. Also if it passes although it was expected
            to fail.
        """
        outcome = self.run()
        if outcome.status == "failed":
            raise Failed(f"{outcome.mechanism}({outcome.case}): {outcome.detail}")
        return outcome.detail

    def run(self) -> Outcome:
        """Run the check, and return its outcome even if the check fails or is skipped."""
        start = time.perf_counter()
        status: Literal["passed", "failed", "skipped", "expected"] = "passed"
        try:
            with time_limit():
                detail = CHECKS[self.name](self.audit)
        except Skipped as reason:
            status, detail = "skipped", str(reason)
        except Failed as wrong:
            status, detail = "failed", str(wrong)
        except Exception as error:  # noqa: BLE001 - a mechanism that breaks a check has not passed it
            status, detail = "failed", f"the check itself raised {type(error).__name__}: {error}"
        if self.expected and status == "failed":
            status, detail = "expected", f"{self.expected} ({detail})"
        elif self.expected and status == "passed":
            status, detail = "failed", f"it was expected to fail ({self.expected}), but passed: {detail}"
        known = self.name in {"loss_within_charge", "charge_is_tight"} and status != "skipped"
        loss = vars(self.audit).get("loss") if known else None
        return Outcome(
            mechanism=self.audit.mechanism.name,
            case=str(self.audit.case),
            check=self.name,
            status=status,
            detail=detail,
            seconds=time.perf_counter() - start,
            loss=loss.epsilon if loss else None,
            charge=loss.charge if loss else None,
        )

    def __str__(self) -> str:
        return f"{self.audit.mechanism.name}({self.audit.case}): {self.name}"


def check_mechanism(
    mechanism: Mechanism,
    cases: Sequence[Case] | None = None,
    *,
    expected_failed_checks: Mapping[str, str] | None = None,
    samples: int = SAMPLES,
) -> Iterator[Check]:
    """Yield the checks of a mechanism: each kind of check in each case.

    Parameters
    ----------
    mechanism : Mechanism
        What `dfprivacy.mechanism` made of a function; it need not be registered.
    cases : sequence of Case, optional
        How it is called; default: the cases that its plugin gives, else such as follow from its columns.
    expected_failed_checks : mapping of str to str, optional
        By name of a check, why it is known to fail. A check that passes in spite of that is a failure.
    samples : int
        Outputs to draw on each side of a sampling audit.

    Yields
    ------
    Check
        To be called: it returns what was seen, or raises an `AssertionError`.

    Raises
    ------
    ArgumentError
        If there are no cases, or an expected failure names no check.

    Examples
    --------
    >>> import dfprivacy as dp
    >>> @dp.mechanism(columns={"column": "numeric"})
    ... def total(curator, column):
    ...     "The sum of a bounded column: no guarantee, no reference."
    ...     return float(curator.sum(dp.features.Moments(column, degree=1)).values[0])
    >>> statuses = {check.name: check.run().status for check in check_mechanism(total)}
    >>> [name for name, status in statuses.items() if status == "failed"]
    ['is_documented']
    """
    expected = dict(expected_failed_checks or {})
    if unknown := expected.keys() - CHECKS.keys():
        raise ArgumentError(f"There are no checks {sorted(unknown)!r}.", f"The checks are {list(CHECKS)!r}.")
    given = cases_of(mechanism) if cases is None else tuple(cases)
    for case in given:
        audit = Audit(mechanism, case, samples, given)
        for name, check in CHECKS.items():
            yield Check(name, _fault_text(check), audit, expected.get(name, ""))


def catalogue() -> str:
    """Return a Markdown table of the checks and the faults that they catch.

    Returns
    -------
    str
        Lines of the table.
    """
    rows = [f"| `{name}` | {_fault_text(check)} |" for name, check in CHECKS.items()]
    return "\n".join(["| check | what it catches |", "| --- | --- |", *rows])
