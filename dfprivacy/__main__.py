"""``python -m dfprivacy``: the command line where no script is installed."""

import sys

from dfprivacy.cli import main

sys.exit(main())
