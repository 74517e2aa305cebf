"""`python -m lasthop`."""

from lasthop.cli.main import run

run()
