"""``ridgefill generate``: text from a prompt with a filled prefill, and beside it what exact prefill gives."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgefill.errors import ConfigError, TextError

if TYPE_CHECKING:
    from ridgefill.generation.timing import Comparison, Run
    from ridgefill.models.load import Loaded
    from ridgefill.pretrained import RidgeFillMaps


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "generate text from a long prompt, its prefill shortened by maps"
    parser = commands.add_parser("generate", help=about, description=about)
    parser.add_argument("--model", required=True, help="folder or hub repository of a causal language model")
    parser.add_argument("--maps", required=True, help="folder or hub repository of maps fitted for it")
    parser.add_argument("--prompt-file", type=Path, required=True, metavar="FILE", help="UTF-8 text to continue")
    parser.add_argument("--chat", action="store_true", help="put the prompt into the model's chat template")
    parser.add_argument(
        "--tail", type=int, default=4096, metavar="N", help="last tokens to run exactly (default: 4096)"
    )
    parser.add_argument("--rows", choices=["attention"], help="also run a tenth of the prompt exactly, by attention")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N", help="tokens to generate (default: 64)")
    parser.add_argument("--compare", action="store_true", help="also run exactly, and compare time and text")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="timings of each kind with --compare (default: 3)"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="processor threads (default: torch's own choice)")
    parser.add_argument(
        "--device", default="cpu", help="of the model: cpu (default), cuda, or cuda:0,cuda:1 to spread it"
    )
    parser.add_argument(
        "--dtype", choices=["auto", "float32", "bfloat16"], default="auto", help="of the model (default: as stored)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_generate)


def _generate(arguments: argparse.Namespace) -> int:
    for name in ("max_new_tokens", "rounds", "threads"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; expected at least 1")
    prompt = _read(arguments.prompt_file)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _say(f"note: {message}")
        return _run(arguments, prompt)


def _run(arguments: argparse.Namespace, prompt: str) -> int:
    import torch

    from ridgefill.generation.timing import compare, generate_once, warm_up
    from ridgefill.mapfiles.match import require_match
    from ridgefill.models.load import load_any
    from ridgefill.pretrained import RidgeFillMaps

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    _say("loading maps and model")
    maps = RidgeFillMaps.from_pretrained(arguments.maps)
    loaded = load_any(arguments.model, arguments.dtype, arguments.device)
    require_match(maps.architecture, loaded.architecture)
    inputs = _tokens(loaded, prompt, arguments)
    fill = {"tail": arguments.tail, "rows": arguments.rows}
    warm_up(loaded.network, inputs)
    if not arguments.compare:
        _say(f"prefilling {inputs['input_ids'].shape[1]:,} tokens")
        run = generate_once(loaded.network, inputs, arguments.max_new_tokens, maps, **fill)
        return _print(arguments, loaded, maps, run, None)
    made = compare(
        loaded.network,
        inputs,
        arguments.max_new_tokens,
        maps,
        rounds=arguments.rounds,
        told=_told(arguments.rounds),
        **fill,
    )
    return _print(arguments, loaded, maps, made.filled[0], made)


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TextError(f"{path} could not be read ({error.strerror}); give a text file with the prompt") from error
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is not UTF-8 text ({error.reason}); convert it") from error
    if not text.strip():
        raise TextError(f"{path} is empty; give a text file with the prompt")
    return text


def _tokens(loaded: Loaded, prompt: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The prompt's token ids and attention mask, where the model is."""
    tokenizer = loaded.tokenizer
    if arguments.chat:
        if not tokenizer.chat_template:
            raise TextError(f"the tokenizer of {arguments.model} has no chat template; leave out --chat")
        turns = [{"role": "user", "content": prompt}]
        prompt = str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
    # A chat template writes the special tokens itself.
    found = tokenizer(prompt, return_tensors="pt", add_special_tokens=not arguments.chat)
    tokens, longest = int(found["input_ids"].shape[1]), _longest(loaded)
    if longest is not None and tokens + arguments.max_new_tokens > longest:
        raise TextError(
            f"the prompt has {tokens:,} tokens and {arguments.max_new_tokens:,} are to follow, but the model takes "
            f"{longest:,}; shorten the prompt"
        )
    return {name: found[name].to(loaded.adapter.device) for name in ("input_ids", "attention_mask")}


def _longest(loaded: Loaded) -> int | None:
    found = getattr(loaded.network.config.get_text_config(), "max_position_embeddings", None)
    return None if found is None else int(found)


def _told(rounds: int) -> Any:
    return lambda kind, number, run: _say(
        f"round {number + 1} of {rounds}, {kind}: first token after {run.first_token:.2f} s"
    )


def _print(
    arguments: argparse.Namespace, loaded: Loaded, maps: RidgeFillMaps, run: Run, made: Comparison | None
) -> int:
    import torch

    def text(one: Run) -> str:
        return str(loaded.tokenizer.decode(list(one.new_ids), skip_special_tokens=True))

    answer: dict[str, Any] = {
        "prompt_tokens": run.tokens,
        "filled": run.filled,
        "filled_share": run.filled / run.tokens,
        "split": maps.split,
        "tail": arguments.tail,
        "first_token_seconds": run.first_token if made is None else made.first_token(made.filled),
        "threads": torch.get_num_threads(),
        "dtype": str(loaded.adapter.dtype).removeprefix("torch."),
        "text": text(run),
    }
    if made is not None:
        answer |= {
            "exact_first_token_seconds": made.first_token(made.exact),
            "ratio": made.ratio,
            "rounds": [
                [filled.first_token, exact.first_token] for filled, exact in zip(made.filled, made.exact, strict=True)
            ],
            "exact_text": text(made.exact[0]),
            "same_tokens": _same(run.new_ids, made.exact[0].new_ids),
        }
    print(json.dumps(answer) if arguments.json else _said(answer))
    return 0


def _same(ours: tuple[int, ...], theirs: tuple[int, ...]) -> int:
    """Tokens at the beginning that are the same."""
    differ = (place for place, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)
    return next(differ, min(len(ours), len(theirs)))


def _said(answer: dict[str, Any]) -> str:
    share = (
        f"{answer['filled']:,} filled ({answer['filled_share']:.1%}), split {answer['split']}, tail {answer['tail']:,}"
    )
    if not answer["filled"]:
        share = f"none filled, as the tail alone has {answer['tail']:,}"
    lines = [
        f"prompt       {answer['prompt_tokens']:,} tokens, {share}",
        f"first token  {answer['first_token_seconds']:.2f} s, {answer['threads']} threads, {answer['dtype']}",
    ]
    if "ratio" not in answer:
        return "\n".join([*lines, "", answer["text"]])
    rounds = len(answer["rounds"])
    each = ", ".join(f"{exact / filled:.2f}" for filled, exact in answer["rounds"])
    lines += [
        f"exact        {answer['exact_first_token_seconds']:.2f} s, {answer['ratio']:.2f} times as long "
        f"(medians of {rounds} rounds in turn: {each})",
        f"text         the first {answer['same_tokens']} tokens are the same",
    ]
    return "\n".join([*lines, "", "--- filled", answer["text"], "", "--- exact", answer["exact_text"]])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
