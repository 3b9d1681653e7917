"""Whether what was measured is taken again, and for nothing else.

Under a sampler that adds no noise, what is taken from the ledger must be what would have been measured. So the kit
asks what else could be asked of the same rows, under one account: with other arguments, bounds and conditions,
by group, of a part. Each answer is held against that of an account that knows nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

from dfprivacy._privacy import samplers as noise
from dfprivacy.errors import LedgerError
from dfprivacy.testing.cases import variants_among
from dfprivacy.testing.discipline import Audit, Failed, Skipped
from dfprivacy.testing.harness import Harness, Replay, fixed_chance, ledger_accounts, listening
from dfprivacy.testing.overheard import overhearing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._ledger.accounts import Account
    from dfprivacy.release import NoisyValue
    from dfprivacy.testing.cases import Case, Row

__all__ = ["reuses_what_was_measured"]

_FINE = 1e-3  # of the scale of the noise: two grids differ by less


class _Exact(Replay):
    """A sampler that adds nothing."""

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:  # noqa: ARG002
        return values.copy()

    gaussian = cube = laplace


def reuses_what_was_measured(audit: Audit) -> str:
    """Catch a measurement that is taken from the ledger for another one, or paid where it is taken.

    Ask again under one account, and what else could be asked.
    """
    audit.answered()
    accounts = ledger_accounts(audit.stage)
    taken = _again(audit, accounts)
    tried = variants_among(audit.mechanism, audit.others or [audit.case], audit.case)
    for name, cases in tried:
        case = replace(cases[0], epsilon=audit.case.epsilon)
        stage, rows = Harness(audit.mechanism, case), _with_parts(case, audit.rows)
        for true, value in zip(
            _measured(stage, rows, ledger_accounts(stage)), _measured(stage, rows, accounts), strict=False
        ):
            if not (value.noise and value.noise.reused and true.noise):
                continue
            if true.values.shape != value.values.shape or _apart(true, value):
                raise Failed(f"with {name}, {value.noise.what} is taken for something else")
            if true.noise.scale != value.noise.scale:
                break  # from here on another course may be taken
    return f"{taken} measurements are taken again, bit by bit and for nothing; {len(tried)} variants take no other"


def _again(audit: Audit, accounts: Sequence[Account]) -> int:
    """Ask twice; give how many measurements the second call takes."""
    first = _measured(audit.stage, audit.rows, accounts)
    before = [account.spent() for account in accounts]
    again = [value for value in _measured(audit.stage, audit.rows, accounts) if value.noise]
    taken = [value for value in again if value.noise and value.noise.reused]
    if not taken:
        raise Skipped("it measures nothing that can be written down")
    for old, new in zip([value for value in first if value.noise], again, strict=True):
        if any(new is each for each in taken) and not np.array_equal(old.values, new.values):
            raise Failed(f"asked again, {new.noise and new.noise.what} is not what was measured")
    every = len(taken) == len(again) == len(audit.first_run.draws)
    if every and before != [account.spent() for account in accounts]:
        raise Failed("all that was measured is taken again, and yet the account has paid")
    return len(taken)


def _apart(true: NoisyValue, value: NoisyValue) -> bool:
    return bool((np.abs(true.values - value.values) > _FINE * true.scales).any())


def _measured(stage: Harness, rows: Sequence[Row], accounts: Sequence[Account]) -> list[NoisyValue]:
    """Ask, whether or not the answer is kept, and give what was measured on the way."""
    with listening(), noise.use(_Exact()), fixed_chance(), overhearing([]) as measurements:
        try:
            question = stage.question(stage.views(stage.frames(rows), accounts), fresh=False)
            with mock.patch.multiple(type(question), _kept=lambda _: None, _implied=lambda *_: None):
                question.ask()
        except LedgerError as error:
            raise Failed(f"what is taken from the ledger does not fit: {error}") from error
        except Exception:  # noqa: BLE001, S110 - what it concludes is of no interest here
            pass
    return [each.answer for each in measurements if each.verb in {"sum", "measure"}]


def _with_parts(case: Case, rows: Sequence[Row]) -> list[Row]:
    """Give the rows, with a column of parts where the case has one more."""
    more = [name for name in case.columns if name not in rows[0]]
    kinds = {name: list(case.categories[name]) for name in more}
    return [
        {**{name: values[at % len(values)] for name, values in kinds.items()}, **row} for at, row in enumerate(rows)
    ]
