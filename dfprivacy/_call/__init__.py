"""Questions to protected tables: how calls are read, planned, paid, measured, kept and combined.

A method of a view becomes a `Question`: whom it is asked of (`Target`), with which arguments, at what price. If the
ledger keeps its answer, that is given again. Else the mechanism runs with a curator, every measurement is paid by
the call's budget before it is made, and the release is kept.

Enters: what the caller wrote. Leaves: a `Release`, or an `Explanation`. Below it: the plugins, the mechanisms, the
measurements, the ledger. Above it: the view alone.
"""
