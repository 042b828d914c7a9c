"""METHOD section 6 read out loud: one token, one query, one head at a time. Nothing here comes from ridgefill.

Naive models are those of ``naive/prefill.py`` and ``naive/hybrid.py``.
"""

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def token_class(text):
    core = text.strip()
    if core == "":
        return "newline/space"
    digits = punctuation = letters = 0
    for char in core:
        digits += char.isdigit()
        punctuation += char in PUNCTUATION
        letters += char.isalpha()
    if digits > 0 and digits + punctuation == len(core):
        return "number"
    if punctuation == len(core):
        return "punct"
    if letters == len(core):
        name = "word start" if text != text.lstrip() else "word piece"
        return f"capitalised {name}" if core[0].isupper() else name
    return "mixed"


def protected(ids, texts, special, prefix, documents, share):
    """The rarest ``share`` of matches, picked one by one: each time the rarest left, the lower position of equals."""
    eligible = {"capitalised word start", "capitalised word piece", "word piece", "mixed"}
    left = [row for row in range(prefix) if ids[row] not in special and token_class(texts[row]) in eligible]
    picked = []
    for _ in range(half_even(share * len(left))):
        rarest = left[0]
        for row in left:
            if occurrences(documents, ids[row]) < occurrences(documents, ids[rarest]):
                rarest = row
        left.remove(rarest)
        picked.append(rarest)
    return sorted(picked)


def occurrences(documents, token):
    return sum(one == token for document in documents for one in document)


def half_even(number):
    """To the nearest whole number; a half to the even neighbour."""
    below = int(number)
    if number - below == 0.5:
        return below + below % 2
    return below + (number - below > 0.5)


def digits(texts, ids, special, prefix):
    return [row for row in range(prefix) if ids[row] not in special and any(c.isdigit() for c in texts[row])]


def top(received, prefix, count):
    """Picked one by one: each time the most, the lower position of equals."""
    left, picked = list(range(prefix)), []
    for _ in range(min(count, prefix)):
        best = left[0]
        for row in left:
            if received[row] > received[best]:
                best = row
        left.remove(best)
        picked.append(best)
    return picked


def lexical(text, offsets, hidden, prefix, window=64, run=4, times=2, first=80, percent=5):
    """Every sentence against every stretch of the window, word by word, for their longest shared runs."""
    shown = "".join("\0" if any(offsets[row][0] <= i < offsets[row][1] for row in hidden) else c
                    for i, c in enumerate(text))  # fmt: skip
    content = [row for row in range(len(offsets)) if row not in hidden][-window:]
    words = [(start, end, held(offsets, start, end)) for start, end in pieces(shown)]
    words = [word for word in words if word[2]]
    inside = [word for word in words if max(word[2]) < prefix]
    seen = [said(shown, word) for word in inside]
    asked = [word for word in words if content and min(word[2]) >= content[0]]
    picked = []
    for start, end in sentences(shown):
        own = [word for word in inside if start <= word[0] < end]
        if any(
            len(shared) >= run and any(seen.count(word) <= times for word in shared)
            for shared in shared_runs(shown, own, asked)
        ):
            rows = [row for row in held(offsets, *trimmed(shown, start, end)) if row < prefix]
            picked += [row for row in rows[:first] if row not in picked]
    return sorted(picked[: percent * prefix // 100])


def said(text, word):
    return text[word[0] : word[1]].casefold()


def held(offsets, start, end):
    """Tokens that hold any of these characters."""
    return [row for row, (low, high) in enumerate(offsets) if any(start <= place < end for place in range(low, high))]


def pieces(text):
    """Words as (start, end): longest stretches of letters, digits and underscores."""
    found, start = [], None
    for place, char in enumerate(text + " "):
        if char.isalnum() or char == "_":
            start = place if start is None else start
        elif start is not None:
            found.append((start, place))
            start = None
    return found


def sentences(text):
    """(start, end) of stretches between sentence ends, line breaks and hidden characters."""
    found, start = [], 0
    for place, char in enumerate(text):
        closed = text[place - 1 : place] and text[place - 1] in "\"'”’)]" and text[place - 2 : place - 1] in list(".!?")
        ended = place > 0 and (text[place - 1] in ".!?" or closed)
        if char in "\n\r\0" or (char.isspace() and ended) or (place > 0 and text[place - 1] in "。！？"):
            found.append((start, place))
            start = place
    return [*found, (start, len(text))]


def trimmed(text, start, end):
    while start < end and (text[start].isspace() or text[start] == "\0"):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] == "\0"):
        end -= 1
    return start, end


def shared_runs(text, own, asked):
    """From every pair of places, the words that are equal one after the other, up to a hidden character."""
    for i in range(len(own)):
        for j in range(len(asked)):
            length = 0
            while i + length < len(own) and j + length < len(asked):
                if length and "\0" in text[asked[j + length - 1][1] : asked[j + length][0]]:
                    break
                if said(text, own[i + length]) != said(text, asked[j + length]):
                    break
                length += 1
            yield [said(text, word) for word in own[i : i + length]]


def attention_received(naive, inputs, layers, first, end):
    """What each position before ``end`` receives from the rows ``first`` to ``end`` in a naive Llama's exact layers."""
    received = [0.0] * end
    for layer in layers:
        keys = [naive.key_value(layer, x, row)[0] for row, x in enumerate(inputs[layer])]
        for row in range(first, end):
            weights = naive.attention(layer, inputs[layer][row], row, keys[: row + 1])
            for position in range(row + 1):
                received[position] += float(weights[:, position].sum())
    return received


def probe_llama(naive, states, split, prefix, rows, predict, *, true_split_layer):
    """Attention that prefix rows receive from the last ``rows`` in the late layers of a naive Llama."""
    tokens = len(states)
    first = max(0, tokens - rows)
    x = {row: states[row] for row in range(first, tokens)}
    received = [0.0] * prefix
    for layer in range(split, naive.layers):
        cache = {}
        for row in range(min(prefix, first)):
            guess = states[row] if layer == split and true_split_layer else predict(layer, states[row])
            cache[row] = naive.key_value(layer, guess, row)
        cache |= {row: naive.key_value(layer, value, row) for row, value in x.items()}
        after = {}
        for row, value in x.items():
            seen = [one for one in sorted(cache) if one <= row]
            weights = naive.attention(layer, value, row, [cache[one][0] for one in seen])
            for place, position in enumerate(seen):
                if position < prefix:
                    received[position] += float(weights[:, place].sum())
            after[row] = naive.finish(layer, value, row, [cache[one] for one in seen])
        x = after
    return received


def probe_hybrid(naive, states, split, prefix, rows, predict, *, true_split_layer):
    """The same for a naive hybrid: recurrent layers meet the probing rows alone."""
    tokens = len(states)
    first = max(0, tokens - rows)
    x = {row: states[row] for row in range(first, tokens)}
    received = [0.0] * prefix
    for layer in range(split, naive.layers):
        memory, attends = {}, naive.kinds[layer] == "full_attention"
        for row in range(min(prefix, first)) if attends else ():
            guess = states[row] if layer == split and true_split_layer else predict(layer, states[row])
            naive.step(layer, memory, guess, row, wanted=False)
        x = {row: naive.step(layer, memory, value, row) for row, value in x.items()}
        for row in x if attends else ():
            seen = [one for one in memory["rows"] if one <= row]
            for place, position in enumerate(seen):
                if position < prefix:
                    received[position] += float(memory["weights"][row][:, place].sum())
    return received


def visible(kind_window, rows, prefix, first, begin, stop):
    """Which columns each probing row sees: filled rows and probing ones before it, within its window."""
    return [
        [
            column <= row
            and (column < prefix or column >= first)
            and (kind_window is None or column > row - kind_window)
            for column in range(begin, stop)
        ]
        for row in rows
    ]
