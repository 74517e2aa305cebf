"""Measurement files of other programs: read into one table, written as traces of a link."""
