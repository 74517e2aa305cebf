"""Real transfers of this machine's kernel beside simulated ones, over many kinds of paths.

python -m fidelity.linux [--jobs N] [--simulate-only]
"""
