"""Inference from noisy sums: estimates, standard errors, intervals and p-values, and their planning.

A release gives sums S with noise of a public law. `draws` of what the exact sums may be, sums by name (`moments`),
and a parameter θ(S) with its variance from sampling give a confidence distribution (`engine`), `planning` asks the
same of releases to come, and `notes` says when not to trust it. Nothing here sees rows.
"""
