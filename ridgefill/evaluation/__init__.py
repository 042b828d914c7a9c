"""Running arms on suites: one exact pass per prompt, every arm from it, rows of results out."""
