"""Tiny hybrids of attention and Gated DeltaNet layers, trained here: language, training, where they retrieve."""
