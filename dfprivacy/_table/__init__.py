"""Access to rows for the rest of the package.

`frames` adapts dataframe libraries, one module each: the only code that knows them. `declare` reads what the caller
says of a table into a schema. `batch` cleans rows in batches, and selects those that a view's conditions want.

Enters: a frame, and what is declared of it. Leaves: batches in which every value is within its public bounds or
among its public categories. It knows nothing of noise, budgets or mechanisms.
"""
