"""`python -m lasthop`."""

import sys

from lasthop.main import main

sys.exit(main())
