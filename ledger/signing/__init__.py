"""Signatures over checkpoints: signed notes, the private keys that make them, and timestamps."""
