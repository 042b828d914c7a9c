"""The paper's published numbers, and ours beside them in the same layout.

The numbers are facts in ``data/paper``; they are the reference side of a comparison and never an input to a
result of ours. Nothing here loads a model.
"""
