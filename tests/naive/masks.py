"""Token masks written straight from their definitions, quadratic and slow."""


def novel_mask(tokens, run):
    """A token is not novel when some run covering it equals a run that starts earlier."""
    tokens = list(tokens)
    starts = range(len(tokens) - run + 1)
    repeated = {
        start
        for start in starts
        for earlier in starts
        if earlier < start and tokens[earlier : earlier + run] == tokens[start : start + run]
    }
    return [not any(start <= position < start + run for start in repeated) for position in range(len(tokens))]


def key_mask(full, short, nats):
    """One comparison per token."""
    return [after - before > nats for before, after in zip(full, short, strict=True)]


def copyable_mask(tokens, before):
    """A token is copyable when it and the ones before it equal as many tokens that end earlier."""
    tokens = list(tokens)

    def ending(position):
        return tokens[position - before : position + 1]

    return [
        position >= before and any(ending(earlier) == ending(position) for earlier in range(before, position))
        for position in range(len(tokens))
    ]
