"""Inspection of one run: charts, stalls and their causes, qlog."""
