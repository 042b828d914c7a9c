"""Every published table, figure, number and verdict again, from ``data/results`` and ``data/ledger/main`` alone."""
