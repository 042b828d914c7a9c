"""Every error the ledger raises on purpose, and the exit code each one ends a command with.

    LedgerError (1)
    |-- UsageError (2)         a command line or call that cannot be what was meant
    |-- ClaimError (3)         a claim file that is not a valid claim
    |-- BrokenLedger (4)       entries that do not verify
    |   `-- FormatError        one byte string that is not what the format allows; ``code`` names the rule
    |-- OutputMismatch (5)     a sound chain whose result or config files have other bytes
    |-- LaunchRefused
    |   |-- Unregistered (6)   no registration for this claim
    |   |-- Drifted (7)        the claim or a pinned config changed after registration
    |   |-- Voided (8)         the registration was withdrawn
    |   |-- Overdue (9)        the last day on which the registration may start a run has passed
    |   |-- Busy (10)          another attempt of the same run holds the lease
    |   `-- NotInClaim (11)    a run, override or outcome the registration does not allow
    |-- NoLedger (12)          no ledger where one was expected
    `-- WriteFailed (13)       the operating system refused a write (full disk, no permission)

Each message is one sentence saying what was found, what was expected and what to do.
"""

from __future__ import annotations


class LedgerError(Exception):
    """Root of the tree; ``exit_code`` is what a command ends with."""

    exit_code = 1


class UsageError(LedgerError):
    """A command line or call that cannot be what was meant."""

    exit_code = 2


class ClaimError(LedgerError):
    """A claim file that is not a valid claim; the message names file, line, key and expectation."""

    exit_code = 3


class BrokenLedger(LedgerError):
    """Entries that do not verify, so nothing may be appended to them or launched from them."""

    exit_code = 4


class FormatError(BrokenLedger):
    """Bytes the format does not allow.

    ``code`` is the stable name of the violated rule (``wrong_prev``, ``duplicate_key``, ...), the same
    name ``ledger verify`` prints.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OutputMismatch(LedgerError):
    """The chain is sound, yet a file it names has other bytes than recorded."""

    exit_code = 5


class LaunchRefused(LedgerError):
    """A run that may not start."""


class Unregistered(LaunchRefused):
    """No registration exists for the claim."""

    exit_code = 6


class Drifted(LaunchRefused):
    """The claim or a pinned config is not the one that was registered."""

    exit_code = 7


class Voided(LaunchRefused):
    """The registration was withdrawn by a ``void`` entry."""

    exit_code = 8


class Overdue(LaunchRefused):
    """The day named by the claim's ``start_by`` has passed."""

    exit_code = 9


class Busy(LaunchRefused):
    """Another attempt of the same run is at work."""

    exit_code = 10


class NotInClaim(LaunchRefused):
    """A run id or an override that the registered claim does not name."""

    exit_code = 11


class NoLedger(LedgerError):
    """There is no ledger at the place that was given."""

    exit_code = 12


class WriteFailed(LedgerError):
    """The operating system refused to write, link or flush a ledger file."""

    exit_code = 13
