"""A private view on any dataframe: ``df.dp``, with a differential-privacy budget.

>>> import pandas as pd, dfprivacy as dp
>>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 50})
>>> private = df.dp.protect("members", epsilon=1, bounds={"age": (18, 90)}, ledger="memory:")
>>> private.ttest("age", popmean=30, epsilon=0.5).privacy.epsilon
0.5
"""

from importlib.metadata import version

from dfprivacy import errors, features, statistics
from dfprivacy.accessor import install
from dfprivacy.budget import Budget, Releases
from dfprivacy.curator import Above, Curator, Holder
from dfprivacy.errors import (
    AccountMismatch,
    ArgumentError,
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
from dfprivacy.hookspecs import hookimpl
from dfprivacy.mechanism import Mechanism, mechanism, public_table
from dfprivacy.plugins import register, register_mechanism, unregister
from dfprivacy.question import Explanation
from dfprivacy.release import ConfidenceInterval, Groups, Measurement, Noise, Privacy, Release, Value
from dfprivacy.schema import Column, Schema
from dfprivacy.view import GroupedView, PrivateFrame, protect

__version__ = version("dfprivacy")
__all__ = [
    "Above",
    "AccountMismatch",
    "ArgumentError",
    "Budget",
    "BudgetError",
    "BudgetExceeded",
    "Column",
    "ConfidenceInterval",
    "Curator",
    "DPError",
    "Explanation",
    "GroupedView",
    "Groups",
    "Holder",
    "LedgerError",
    "Measurement",
    "Mechanism",
    "MissingDependency",
    "Noise",
    "NotProtected",
    "PluginError",
    "PluginWarning",
    "Privacy",
    "PrivateFrame",
    "ReadError",
    "Release",
    "Releases",
    "Schema",
    "SchemaError",
    "Value",
    "__version__",
    "errors",
    "features",
    "hookimpl",
    "mechanism",
    "protect",
    "public_table",
    "register",
    "register_mechanism",
    "statistics",
    "unregister",
]

install()
