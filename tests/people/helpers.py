"""What the tests of people share: statistics that one person moves, and rows between those of others."""

from __future__ import annotations

import itertools

import numpy as np

from dfprivacy import features
from dfprivacy.statistics import OfRows, OfSums


def between(others, state, name):
    """The others' rows, and between them those of one person."""
    pairs = itertools.zip_longest([(name, *row) for row in state], others)
    return [row for pair in pairs for row in pair if row is not None]


class Rank(OfSums):
    """A statistic of counts that one row more moves by 1, one exchanged by 2."""

    shape = (1,)

    def __init__(self, column):
        self.features, self.columns = features.OneHot(column), (column,)

    def value(self, sums):
        return sums[0] - sums[1]

    def sensitivity(self, relation, norm, public):
        return 2.0 if relation == "replace_one" else 1.0


class Changes(OfRows):
    """A statistic of rows in order: how often a row differs from the one before; each row moves it by 2."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        return int(np.count_nonzero(np.diff(rows.codes(self.columns[0]))))

    def sensitivity(self, relation, norm, public):
        return 2.0
