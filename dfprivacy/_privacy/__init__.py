"""Mathematics of privacy, without data: privacy losses and their composition, noise scales, samplers of noise.

`losses` are what releases are charged, `conversions` the formulas between privacy parameters, `filters` add
charges up. `calibrate` finds grids and scales of noise; `samplers` add discrete noise, from OpenDP (the only code
that knows it) or made of its noise (`draws`); `response` has the weights of randomised response.

Enters: sensitivities, budgets, integers. Leaves: losses, scales, noisy integers. It knows nothing of
tables.
"""
