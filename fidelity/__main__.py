"""`python -m fidelity`."""

import sys

from fidelity.pages import main

sys.exit(main())
