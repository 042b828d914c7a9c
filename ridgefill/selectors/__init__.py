"""Rules that pick the prefix rows to run exactly (paper section 2.4), each a small value with its own cost.

A selector has ``rows(context)``, the picked prefix positions in ascending order, and ``macs(work)``, what picking them
costs in multiply-accumulates. Rules that read only text import no torch.
"""
