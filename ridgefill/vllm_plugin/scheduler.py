"""The engine's scheduler, with prefix caching that never gives a filled block to a request that would not fill it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import BlockHash, generate_block_hash_extra_keys, hash_block_tokens
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request

from ridgefill.vllm_plugin.logs import say_odd_switch, say_resumed
from ridgefill.vllm_plugin.requests import first_exact
from ridgefill.vllm_plugin.settings import SWITCH, settings_of_this_process, wanted


@dataclass(frozen=True)
class FilledHashes:
    """Hashes of a filled request's blocks, which no block of an exact request can have.

    A block wholly before ``boundary`` holds filled rows, and rows picked by their token, the same for every request
    that fills them. Any later block holds rows that ran over them, the same only for requests with the same boundary.
    alone: a name when none of its blocks may be shared. size: tokens of a block. digest: the engine's hash function.
    """

    boundary: int
    size: int
    digest: Callable[[Any], bytes]
    alone: str | None

    def __call__(self, request: Request) -> list[BlockHash]:
        """Hashes of the blocks that have become full, chained to those the request has."""
        hashes = list(request.block_hashes)
        known = len(hashes)
        for begin in range(known * self.size, request.num_tokens - self.size + 1, self.size):
            end = begin + self.size
            stock, _ = generate_block_hash_extra_keys(request, begin, end, 0)
            own = ("ridgefill", "filled" if end <= self.boundary else self.boundary, self.alone)
            tokens = request.all_token_ids[begin:end]
            before = hashes[-1] if hashes else None
            hashes.append(hash_block_tokens(self.digest, before, tokens, (*(stock or ()), own)))
        return hashes[known:]


class RidgeFillScheduler(Scheduler):
    """The stock scheduler; a request that will be filled gets its own kind of block hashes before it is queued."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings = settings_of_this_process()
        self.settings = settings
        self.digest = get_hash_fn_by_name(self.cache_config.prefix_caching_hash_algo)
        self.resumed_positions = 0

    def add_request(self, request: Request) -> None:
        """Queue a request."""
        asked = request.sampling_params.extra_args if request.sampling_params else None
        if wanted(self.settings, asked) is None:
            say_odd_switch((asked or {}).get(SWITCH))
        boundary = first_exact(self.settings, request.num_prompt_tokens, request.sampling_params)
        if request._block_hasher is not None and (boundary or request.resumable):
            # A prompt that will grow moves its tail, so what its blocks hold cannot be told from its tokens.
            alone = request.request_id if request.resumable else None
            request._block_hasher = FilledHashes(boundary, self.hash_block_size, self.digest, alone)
            request.block_hashes = []
            request.update_block_hashes()
        super().add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> SchedulerOutput:
        """Schedule a step, and count what filled requests found in the prefix cache."""
        output = super().schedule(*args, **kwargs)
        for new in output.scheduled_new_reqs:
            request = self.requests[new.req_id]
            if new.num_computed_tokens and isinstance(request._block_hasher, FilledHashes):
                self.resumed_positions += new.num_computed_tokens
                say_resumed(new.req_id, new.num_computed_tokens, self.resumed_positions)
        return output
