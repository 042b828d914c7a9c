"""Where jobs put a model: the part of a model's file that says so."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ridgefill.sizes import Frozen
from ridgefill.suite_settings import unset


class Loading(Frozen):
    """Where jobs put a model, and how its attention is computed there.

    device: ``cuda`` takes a GPU that no other job of ours on the node has, ``auto`` one where there is one; the
    processor without it. gpus: how many of them the layers are spread over, one without it. attention: torch's kernel,
    whichever it thinks fastest without it. Its type is the experiment's ``dtype``.
    """

    device: Annotated[str, Field(pattern=r"^(cpu|auto|cuda(:[0-9]{1,2})?)$")] | None = Field(
        default=None, exclude_if=unset
    )
    gpus: Annotated[int, Field(ge=1, le=64)] | None = Field(default=None, exclude_if=unset)
    attention: Literal["flash", "efficient", "math"] | None = Field(default=None, exclude_if=unset)

    @model_validator(mode="after")
    def _gpus_are_asked_for(self) -> Self:
        if self.gpus is not None and self.device not in ("cuda", "auto"):
            raise ValueError(f"gpus: {self.gpus} was given with device: {self.device}; expected cuda, or auto")
        return self
