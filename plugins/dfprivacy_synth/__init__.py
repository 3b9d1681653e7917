"""``view.synth``: synthetic tables, and answers with intervals, from noisy contingency tables of few columns."""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_synth.answers import SynthAnswer
from dfprivacy_synth.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_synth.mechanisms import check_synth, plan_synth, synth
from dfprivacy_synth.release import Synth

__all__ = ["Synth", "SynthAnswer", "synth"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register the method that publishes a synthetic table."""
    register(synth.checks(check_synth).plans(plan_synth))
