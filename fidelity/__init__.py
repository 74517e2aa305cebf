"""Comparison with ns-2.35, ns-3.44 and measurements of Linux: the pages docs/fidelity*.md.

`python -m fidelity` runs it from a clone of the repository, which has the reference
tables (`tests/reference`).
"""
