"""The Snakemake workflow and the Python entries of its jobs: the one place where ridgefill meets ledger."""
