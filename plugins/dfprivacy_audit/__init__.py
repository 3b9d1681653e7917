"""The conformance kit: checks of mechanisms against mistakes, on made-up tables."""

from dfprivacy_audit.cases import Case
from dfprivacy_audit.conformance import CHECKS, Check, Outcome, catalogue, check_mechanism

__all__ = ["CHECKS", "Case", "Check", "Outcome", "catalogue", "check_mechanism"]
