"""Which tokens of a document are scored (EVALUATION section 1): the last ones, and never the beginning of a tail."""

from __future__ import annotations

from ridgefill.errors import TextError

SCORED = 512
SKIPPED_SHARE = 4


def scored_stretch(total: int, boundary: int, tail: int, scored: int = SCORED) -> range:
    """Positions of the last ``scored`` of ``total`` tokens.

    ``boundary`` is the position where the exact tail begins and ``tail`` its length in tokens; a stretch may
    lie inside the tail or follow it. Right behind the boundary the loss is far above its later level, so a
    stretch that begins in the first quarter of the tail is refused, as is one that does not fit: TextError.
    """
    if boundary < 0 or tail < 1 or boundary + tail > total:
        raise TextError(f"a tail of {tail} tokens from position {boundary} does not fit in {total} tokens; check both")
    first = boundary + -(-tail // SKIPPED_SHARE)
    if not 1 <= scored <= total - first:
        raise TextError(
            f"{scored} of {total} tokens cannot be scored behind a tail of {tail} that begins at {boundary}: its first "
            f"quarter is left out, so score 1 to {total - first}, or make the tail longer"
        )
    return range(total - scored, total)
