"""What is computed from runs: metrics, series, statistics, tables."""
