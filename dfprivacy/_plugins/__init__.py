"""Discovery of plugins and their mechanisms.

Hooks (`hookspecs`), the loader that survives other people's broken plugins (`loader`), and their methods as text
for editors and type checkers (`stubs`).

Enters: entry points, and what is registered in the process. Leaves: mechanisms by name. It knows what a mechanism
is, and nothing of calls or measurements.
"""
