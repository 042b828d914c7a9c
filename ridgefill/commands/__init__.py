"""The larger commands of ``ridgefill``, one to a module; each module's ``add`` registers its parser.

Modules import nothing heavy at the top: every command pays for all of them before it starts.
"""
