"""The mathematics of privacy: pure numbers, and noise.

`losses` are what releases are charged, `conversions` the formulas between privacy parameters, `filters` add charges
up. `samplers` put sums on a grid and add discrete noise, from OpenDP (the only code that knows it) or made of its
noise (`cube`); `response` has the weights of randomised response.

Enters: sensitivities, budgets, whole numbers. Leaves: losses, scales, noisy whole numbers. It knows nothing of
tables.
"""
