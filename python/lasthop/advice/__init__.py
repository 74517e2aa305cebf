"""Answers for a measured link: how well a fit repeats it, and what a scheme would change."""
