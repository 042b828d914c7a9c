"""``python -m ledger`` is the ``ledger`` command."""

import sys

from ledger.cli import main

sys.exit(main())
