"""From a printed number back to the rows, the run and the ledger entries behind it, and queries over all results."""

from __future__ import annotations
