"""Corrections of what filled rows leave behind (METHOD section 5): value and key rescale, terminal recurrent state.

They are settings and functions over one late layer; ``ridgefill.amend`` runs a layer with them in their places.
"""
