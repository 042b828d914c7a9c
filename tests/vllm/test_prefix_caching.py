"""Prefix caching: filled blocks are found by requests that would fill them, and by no others."""

from ridgefill.vllm_plugin.logs import read_log

NEW = 8
BLOCK = 32


def ask(engine, prompt, switch):
    """The one answer, and how many positions the request found in the cache by the log."""
    answers, lines = engine.act("generate", prompts=[prompt], switches=[switch], new=NEW)
    return answers[0], read_log(lines).resumed


def test_filled_blocks_are_given_to_filled_requests_only(engines, prompt):
    """The same prompt filled, exact, filled again; one that goes on, and one that ends where rows would be exact.

    Of the prompt of 300 tokens 260 rows are filled: eight blocks of 32 wholly, the ninth in part.
    """
    served, fresh = engines.get(enable_prefix_caching=True), engines.get()
    long = prompt(300, 8)
    shared, short = (300 - engines.tail) // BLOCK * BLOCK, (150 - engines.tail) // BLOCK * BLOCK
    total = 0
    for what, asked, switch, cached in (
        ("filled", long, 1, 0),
        ("exact", long, 0, 0),
        ("filled again", long, 1, 288),
        ("exact again", long, 0, 288),
        ("going on, filled", long + prompt(200, 9), 1, shared),
        ("ending before, filled", long[:150], 1, short),
        ("ending before, exact", long[:150], 0, 128),
    ):
        answer, counted = ask(served, asked, switch)
        assert answer["cached"] == cached, what
        assert answer["tokens"] == ask(fresh, asked, switch)[0]["tokens"], what
        total += cached if switch else 0
        assert counted == (total if switch and cached else 0), what


def test_without_filling_prefix_caching_is_the_stock_engines(engines, prompt):
    """Hits and answers, bit for bit."""
    stock = engines.get(filled=False, enable_prefix_caching=True)
    ours = engines.get(enable_prefix_caching=True)
    long = prompt(300, 7)
    for asked in (long, long, long[:150], prompt(40), long + prompt(100)):
        assert ask(ours, asked, 0) == ask(stock, asked, None)
