"""Adapters: one file per architecture family, behind the interface in ``base``."""
