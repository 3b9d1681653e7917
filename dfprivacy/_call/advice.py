"""Advice on whether bounds found first would narrow an answer, from public numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy._call.payment import Unpaid
from dfprivacy._call.plan import RELATIVE
from dfprivacy._measure.curator import Planner
from dfprivacy._plugins.loader import registry
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy._call.question import Question
    from dfprivacy.mechanism import Mechanism

__all__ = ["PART", "finder", "narrowing"]

PART = Fraction(1, 4)
"""The part of the epsilon with which bounds are found."""
_TENTH = 0.1  # of the bounds, over which the values spread
_SEEN = 0.2  # relative error of the search, up to which it sees an interval with a fifth of the rows


def finder() -> Mechanism:
    """Return what finds bounds."""
    if (found := registry().mechanisms.get("find_bounds")) is None:
        raise ArgumentError('bounds="find" needs the plugin that has find_bounds().', "Declare bounds.")
    return found


def narrowing(question: Question, planner: Planner, findings: Mapping[str, Any]) -> dict[str, str]:
    """Recommend to find bounds where that would narrow an answer about values that spread over a tenth of them.

    That is where the noise, which follows from the bounds, is more than the error of sampling of such values.

    Parameters
    ----------
    question : Question
        What is asked.
    planner : Planner
        What has planned it.
    findings : mapping
        What the mechanism expects, with its relative error: in standard deviations of a sixth of the range.

    Returns
    -------
    dict
        One finding more, or none.
    """
    error, target = findings.get(RELATIVE, 0.0), question.target
    known = sorted(column.name for column in planner.numbers if column.beyond is None and not column.find)
    takes = "bounds" not in question.mechanism.signature.parameters and not target.table.parts
    noisy = isinstance(error, str) or error > _TENTH / math.sqrt(max(planner.supposed_size[0], 1))
    search = registry().mechanisms.get("find_bounds")
    if not (planner.scaled and known and takes and noisy) or search is None or search.planner is None:
        return {}
    arguments = search.resolve(target.table.schema, {"columns": known})
    looking = Planner(target.table, Unpaid(target, question.spending[0] * PART, Fraction(0)))
    looking.planned = search.measure(looking, arguments)
    if search.planner(looking, **arguments).get(RELATIVE, math.inf) > _SEEN:
        return {}
    left = _TENTH / float(1 - PART)
    return {'bounds="find"': f"may narrow it: if values spread over a tenth of the bounds, to noise of {left:.0%}"}
