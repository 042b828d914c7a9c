"""``ridgefill bench``: what RidgeFill's work costs beside a reference in the same process, row by row."""
