"""`python -m lasthop`."""

import sys

from lasthop.cli.main import main

sys.exit(main())
