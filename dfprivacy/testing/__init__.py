"""Tools for tests: noise that can be repeated, and a conformance kit for mechanisms."""

from dfprivacy.testing.cases import Case
from dfprivacy.testing.conformance import CHECKS, Check, Outcome, catalogue, check_mechanism

__all__ = ["CHECKS", "Case", "Check", "Outcome", "catalogue", "check_mechanism"]
