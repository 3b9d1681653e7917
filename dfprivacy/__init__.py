"""A private view on any dataframe: ``df.dp``, with a differential-privacy budget.

>>> import pandas as pd, dfprivacy as dp
>>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 50})
>>> private = df.dp.protect("members", epsilon=1, bounds={"age": (18, 90)}, ledger="memory:")
>>> private.ttest("age", popmean=30, epsilon=0.5).privacy.epsilon
0.5
"""

from dfprivacy import errors, features, statistics
from dfprivacy._call.combine import Combination, combine
from dfprivacy._call.explanation import Explanation
from dfprivacy._call.plan import Plan
from dfprivacy._call.power import Power
from dfprivacy._ledger.budget import Budget, Releases
from dfprivacy._measure.curator import Curator, Holder, SparseVectorAnswers
from dfprivacy._plugins.hookspecs import hookimpl
from dfprivacy._plugins.loader import register, register_mechanism, unregister
from dfprivacy._table.conditions import Presence
from dfprivacy.accessor import install
from dfprivacy.arguments import NanPolicy, Probability, Range
from dfprivacy.column import ColumnView
from dfprivacy.errors import (
    AccountMismatch,
    ArgumentError,
    AwaitingApproval,
    BudgetError,
    BudgetExceeded,
    DPError,
    LedgerError,
    MissingDependency,
    NotProtected,
    PluginError,
    PluginWarning,
    ReadError,
    SchemaError,
)
from dfprivacy.estimates import Estimate, statistic
from dfprivacy.expressions import Expression, col
from dfprivacy.mechanism import Mechanism, mechanism, public_table
from dfprivacy.protection import power, protect
from dfprivacy.release import (
    ConfidenceInterval,
    DiscoveredKeys,
    Exact,
    Groups,
    MeasurementRecord,
    NoisyValue,
    Privacy,
    Release,
    Reveal,
    Value,
)
from dfprivacy.remote import RemoteFrame, connect
from dfprivacy.request import Answers, Request, answers, request
from dfprivacy.schema import Column, Schema, discover
from dfprivacy.view import GroupedView, PerPerson, PrivateFrame

__version__ = "0.1.1"
present = Presence.PRESENT
missing = Presence.MISSING
__all__ = [
    "AccountMismatch",
    "Answers",
    "ArgumentError",
    "AwaitingApproval",
    "Budget",
    "BudgetError",
    "BudgetExceeded",
    "Column",
    "ColumnView",
    "Combination",
    "ConfidenceInterval",
    "Curator",
    "DPError",
    "DiscoveredKeys",
    "Estimate",
    "Exact",
    "Explanation",
    "Expression",
    "GroupedView",
    "Groups",
    "Holder",
    "LedgerError",
    "MeasurementRecord",
    "Mechanism",
    "MissingDependency",
    "NanPolicy",
    "NoisyValue",
    "NotProtected",
    "PerPerson",
    "Plan",
    "PluginError",
    "PluginWarning",
    "Power",
    "Presence",
    "Privacy",
    "PrivateFrame",
    "Probability",
    "Range",
    "ReadError",
    "Release",
    "Releases",
    "RemoteFrame",
    "Request",
    "Reveal",
    "Schema",
    "SchemaError",
    "SparseVectorAnswers",
    "Value",
    "__version__",
    "answers",
    "col",
    "combine",
    "connect",
    "discover",
    "errors",
    "features",
    "hookimpl",
    "mechanism",
    "missing",
    "power",
    "present",
    "protect",
    "public_table",
    "register",
    "register_mechanism",
    "request",
    "statistic",
    "statistics",
    "unregister",
]

install()
