"""`python -m fidelity.linux`."""

import sys

from fidelity.linux.suite import main

if __name__ == "__main__":  # A process of the pool imports this module, too.
    sys.exit(main())
