"""Ledgers of accounts: the charges to privacy budgets, by analyst and table.

A `ledger` keeps `accounts`, the shares that analysts have of them, their charges, `measurements` and answers in the
`tables` of a database, SQLite unless its `address` says otherwise; no other package knows SQLAlchemy. `names` tells
names that look the same, `known_states` and `backup` keep a lost or replaced file from becoming a fresh budget, and
`budget` shows people what was asked and spent.

Enters: privacy losses, and releases as JSON. Leaves: leave to measure, durably recorded, or a refusal. It knows
nothing of tables of data or of mechanisms.
"""
