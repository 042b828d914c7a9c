"""The commands of ``ledger``, a few to a module; each module's ``add`` registers its parsers.

Modules import nothing heavy at the top: every command pays for all of them before it starts.
"""
