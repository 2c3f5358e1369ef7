"""`python -m magis.cli`, for where the script `magis` is not on the path."""

import sys

from magis.cli import main

sys.exit(main())
