"""``python -m ridgefill.recompute RESULTS_DIR``."""

from __future__ import annotations

import sys

from ridgefill.recompute import main

sys.exit(main())
