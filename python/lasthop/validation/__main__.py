"""`python -m lasthop.validation`."""

import sys

from lasthop.validation.pages import main

sys.exit(main())
