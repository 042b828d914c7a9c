"""Map files in the published layout, both directions (METHOD section 2): numbers, layer files, manifest, folder.

Works on plain mappings of tensors; ``ridgefill.maps`` makes them maps.
"""
