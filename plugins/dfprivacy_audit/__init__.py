"""Conformance checks of mechanisms: privacy, accuracy and documentation, tested on synthetic tables."""

from dfprivacy_audit.cases import Case
from dfprivacy_audit.conformance import CHECKS, Check, Outcome, catalogue, check_mechanism

__all__ = ["CHECKS", "Case", "Check", "Outcome", "catalogue", "check_mechanism"]
