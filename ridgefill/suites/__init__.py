"""What the arms are measured on: retrieval samples, frozen documents, token masks, scoring; no torch."""
