"""Fitted maps at work on stock transformers: a filled prefill for ``generate`` and for a cache of one's own."""
