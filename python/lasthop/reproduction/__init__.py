"""The papers' figures and claims, regenerated from the files in `papers`."""
