"""A hash-chained ledger of preregistered runs: registrations, starts and results, verifiable offline."""
