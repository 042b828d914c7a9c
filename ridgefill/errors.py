"""Every error RidgeFill raises on purpose, under one root.

    RidgeFillError
    |-- ConfigError      an experiment, model or command line that cannot be what the user meant
    |-- ModelError       a model that is missing, corrupt, or not the one that was pinned
    |-- MapError         map files that do not fit the model, or do not match their checksums
    |-- TextError        a text source, document or prompt that cannot be used
    |-- NumericsError    a NaN, an overflow, or a fit that has no unique solution
    `-- ResultsError     result files with another schema, missing rows, or numbers that do not match

Each message is one sentence that says what was found, what was expected and what to do. Command line
entry points print it after ``error:`` and exit with ``exit_code``; a traceback is always a bug.
"""

from __future__ import annotations


class RidgeFillError(Exception):
    """Root of all errors raised on purpose; ``exit_code`` is what the process ends with."""

    exit_code = 1


class ConfigError(RidgeFillError):
    """A configuration or command line that is wrong or incomplete."""

    exit_code = 2


class ModelError(RidgeFillError):
    """A model that is missing, corrupt or different from the pinned one."""

    exit_code = 3


class MapError(RidgeFillError):
    """Map files that do not fit the model or their own checksums."""

    exit_code = 4


class TextError(RidgeFillError):
    """A text source, document or prompt that cannot be used."""

    exit_code = 5


class NumericsError(RidgeFillError):
    """A NaN or infinity where a number was expected, or a singular fit."""

    exit_code = 6


class ResultsError(RidgeFillError):
    """Result files that are incomplete, altered or of another schema."""

    exit_code = 7
