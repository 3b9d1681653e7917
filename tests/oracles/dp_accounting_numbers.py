"""Run by a Python that has dp-accounting: JSON questions from standard input, JSON numbers to standard output."""

from __future__ import annotations

import json
import sys

from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_mechanism
from dp_accounting.rdp import RdpAccountant


def delta_gauss(epsilon, mu):
    return privacy_loss_mechanism.GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)


def laplace_renyi(epsilon, alpha):
    accountant = RdpAccountant(orders=[alpha])
    accountant.compose(dp_event.LaplaceDpEvent(1 / epsilon))
    return float(accountant._rdp[0])


functions = {"delta_gauss": delta_gauss, "laplace_renyi": laplace_renyi}
questions = json.load(sys.stdin)
json.dump([functions[name](*arguments) for name, *arguments in questions], sys.stdout)
