"""The conformance kit: named checks for any mechanism, and what each of them catches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dfprivacy.errors import ArgumentError
from dfprivacy.testing import conduct, discipline, elsewhere, people, reuse, sample
from dfprivacy.testing.cases import Case, cases_of
from dfprivacy.testing.discipline import Audit, Failed, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dfprivacy.mechanism import Mechanism

__all__ = ["CHECKS", "Check", "MechanismConformance", "Outcome", "catalogue", "check_mechanism"]

SAMPLES = 100_000

CHECKS: dict[str, tuple[Callable[[Audit], str], str]] = {
    check.__name__: (check, catches)
    for check, catches in [
        (discipline.answers, "a mechanism that fails on a plain table"),
        (
            discipline.loss_within_charge,
            "too little noise: a sensitivity that is too small, rows counted twice, changes of group charged once",
        ),
        (
            elsewhere.holds_in_other_cases,
            "the same where the author gives no case: another relation, public columns, parts, bounds, prices",
        ),
        (
            people.people_stand_together,
            "too little noise for all rows of a person: in several groups, more than count, or without a name",
        ),
        (
            sample.samples_stand_alone,
            "a secret sample of two questions, or of rows that are not drawn, and a price that it does not cover",
        ),
        (elsewhere.moves_with_its_sums, "a statistic that rounded sums move further than it says"),
        (discipline.charge_is_tight, "too much noise: budget that is charged and not used"),
        (
            discipline.concludes_from_noise_alone,
            "anything exact in a release: counts, ranges, thresholds learned from the data, noise of its own",
        ),
        (
            conduct.shows_noise_alone,
            "attributes that are no field, pictures, texts, the order of keys, or a pickle that tell what is exact",
        ),
        (
            conduct.noises_what_it_reads,
            "private rows read for nothing: a sensitivity of 0, bundled features changed",
        ),
        (
            discipline.noise_is_what_was_charged,
            "noise from elsewhere, of another scale than was charged, or used twice",
        ),
        (
            discipline.outputs_do_not_tell,
            "noise of other kinds: any event that is likelier on a neighbouring table than epsilon allows",
        ),
        (discipline.noise_follows_its_law, "a sampler whose noise or messages do not follow their law"),
        (discipline.refuses_bad_prices, "an answer for an epsilon of zero, NaN, infinity or nothing"),
        (
            discipline.charges_before_reading,
            "rows read before they are paid for, and errors of an engine that are passed on",
        ),
        (discipline.reads_through_the_curator, "rows read behind the curator's back"),
        (
            discipline.spends_what_was_asked,
            "a call that costs more than was asked, says that it cost less, or spares one of two accounts",
        ),
        (discipline.cost_does_not_depend_on_data, "a price that tells of the data"),
        (discipline.explains_for_nothing, "an explanation that reads, charges, or shows an earlier sum"),
        (discipline.keeps_the_charge, "a refund after an error, and a question that is paid twice"),
        (
            reuse.reuses_what_was_measured,
            "a measurement that is taken from the ledger for another one, or paid where it is taken",
        ),
        (discipline.keeps_no_state, "measurements kept from one call for another"),
        (
            conduct.leaves_no_trace,
            "files, processes, connections, environment variables, seeds, and state kept in a module",
        ),
        (
            conduct.own_form_keeps_nothing,
            "an exact form for the owner that keeps what a release could find",
        ),
        (
            conduct.features_keep_the_rules,
            "features that inherit from bundled ones, or define what the core derives, themselves or by a mix-in",
        ),
        (conduct.diameters_hold, "a diameter of a feature's author's that two rows refute"),
        (conduct.units_hold, "a feature whose rows are not of the whole units that it claims"),
        (
            conduct.features_remember_nothing,
            "features that keep the rows they see, warn of them, or then declare another radius, shape or weight",
        ),
        (
            conduct.features_never_fail,
            "features, statistics and labels that raise, or have another shape, on some rows: these count as zeros",
        ),
        (
            discipline.rows_stand_alone,
            "features that look at other rows or at the place in a batch, and arithmetic that depends on the batch",
        ),
        (
            discipline.same_on_every_engine,
            "other sums on pandas, Polars or a LazyFrame, and tables that are changed",
        ),
        (discipline.release_is_plain, "a release with NaN, with rows in it, or that cannot be kept in the ledger"),
        (discipline.says_what_its_interval_covers, "an interval without a word on what it covers"),
        (discipline.says_no_value, "errors, warnings, logs and output that quote a value of the data"),
        (discipline.is_documented, "a docstring without a guarantee or a reference"),
    ]
}
"""The checks by name, each with what it catches."""


@dataclass(frozen=True)
class Outcome:
    """What became of one check.

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
        """The share of the charge that the worst pair of tables uses up."""
        return self.loss / self.charge if self.loss is not None and self.charge else None


@dataclass(frozen=True)
class Check:
    """One check of one mechanism in one case, to be called by any test runner.

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
        """Run the check; return what was seen.

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
        """Run the check; return what became of it, whatever it is."""
        start = time.perf_counter()
        status: Literal["passed", "failed", "skipped", "expected"] = "passed"
        try:
            detail = CHECKS[self.name][0](self.audit)
        except Skipped as reason:
            status, detail = "skipped", str(reason)
        except Failed as wrong:
            status, detail = "failed", str(wrong)
        except Exception as error:  # noqa: BLE001 - a mechanism that breaks a check has not passed it
            status, detail = "failed", f"the check broke with {type(error).__name__}: {error}"
        if self.expected and status == "failed":
            status, detail = "expected", f"{self.expected} ({detail})"
        elif self.expected and status == "passed":
            status, detail = "failed", f"it was expected to fail ({self.expected}), and passes: {detail}"
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
    """Give all checks of a mechanism, one at a time.

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
        for name, (_, catches) in CHECKS.items():
            yield Check(name, catches, audit, expected.get(name, ""))


class MechanismConformance:
    """Base class of tests for pytest: one test for each check.

    A subclass named ``Test...`` gives three fixtures: ``mechanism``, the `dfprivacy.Mechanism`; ``cases``, a list
    of `Case`, or None for the default; ``expected_failed_checks``, a dictionary of reasons by name of the check,
    mostly empty.

    Examples
    --------
    ::

        class TestAverage(MechanismConformance):
            @pytest.fixture
            def mechanism(self):
                return average

            @pytest.fixture
            def cases(self):
                return [Case(arguments={"column": "age"}, bounds={"age": (18, 90)})]

            @pytest.fixture
            def expected_failed_checks(self):
                return {}
    """

    def _check(self, name: str, mechanism: Mechanism, cases: Any, expected_failed_checks: Any) -> None:
        import pytest

        given = (mechanism, cases, expected_failed_checks)
        if _shared.get("given") != given:
            known = check_mechanism(mechanism, cases, expected_failed_checks=expected_failed_checks)
            _shared.update(given=given, checks=list(known))
        outcomes = [check.run() for check in _shared["checks"] if check.name == name]
        wrong = [f"{outcome.case}: {outcome.detail}" for outcome in outcomes if outcome.status == "failed"]
        if wrong:
            raise Failed("\n".join(wrong))
        reasons = [outcome for outcome in outcomes if outcome.status in {"skipped", "expected"}]
        if len(reasons) == len(outcomes):
            (pytest.xfail if reasons[0].status == "expected" else pytest.skip)(reasons[0].detail)


_shared: dict[str, Any] = {}  # the checks of the class of tests that is running, which share what is expensive


def _test(name: str, catches: str) -> Any:
    def test(self: MechanismConformance, mechanism: Any, cases: Any, expected_failed_checks: Any) -> None:
        self._check(name, mechanism, cases, expected_failed_checks)

    test.__doc__ = f"Catches {catches}."
    test.__name__ = test.__qualname__ = f"test_{name}"
    return test


for _name, (_, _catches) in CHECKS.items():
    setattr(MechanismConformance, f"test_{_name}", _test(_name, _catches))


def catalogue() -> str:
    """Write down what each check catches, as a table in Markdown.

    Returns
    -------
    str
        Lines of the table.
    """
    rows = [f"| `{name}` | {catches} |" for name, (_, catches) in CHECKS.items()]
    return "\n".join(["| check | what it catches |", "| --- | --- |", *rows])
