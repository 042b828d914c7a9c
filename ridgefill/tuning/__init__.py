"""Choosing a split, a tail, exact rows and maps for a new model on development data, and testing the choice on data
that the search has not seen (EVALUATION section 3)."""
