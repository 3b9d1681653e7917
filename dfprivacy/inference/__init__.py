"""Inference from noisy sums: an estimate, its error, an interval, a p-value, and their expectations.

A release gives sums S with noise of a public law. `draws` of what the exact sums may be, sums by name (`moments`),
and a parameter θ(S) with its variance from sampling give a confidence distribution (`engine`), `planning` asks the
same of releases to come, and `notes` says when not to trust it. Nothing here sees rows.
"""
