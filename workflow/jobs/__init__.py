"""Python entries of the workflow's jobs, each run as ``python -m workflow.jobs.NAME``."""
