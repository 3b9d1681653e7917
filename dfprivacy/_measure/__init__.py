"""Measurements: the only code that, after a charge to the budget, reads private rows and adds noise.

The curator (`curator`) has the verbs that a mechanism may use. Each works out the loss from public numbers, lets
the call pay, and only then evaluates (`evaluate`) exact sums or statistics of the selected rows, and adds noise.
What the ledger keeps of the same, known by its `description`, is taken in place of that.

Enters: features, statistics and labels, and a table. Leaves: noisy values. What is asked is copied before it sees a
row, and what is free follows from the names of public columns.
"""
