"""The trial of a congestion control by the criteria of RFC 9743: suite, runs, verdicts, card."""
