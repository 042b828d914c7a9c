"""RULER written slowly: needle spans by sets of characters, sizes one by one, counts with a real zeta function,
and the counting and tracking tasks drawn once more, step by step, from the same seeds.
"""

import collections
import random
import re

from scipy.special import zeta


def token_spans(sample, prompt_text, offsets):
    """(first, last, queried) of each needle: tokens that share a character with it."""
    start = prompt_text.index(sample.question_prompt)
    spans = []
    for needle in sample.needles:
        characters = {start + place for place in range(needle.char_start, needle.char_end)}
        touching = [token for token, (low, high) in enumerate(offsets) if characters & set(range(low, high))]
        spans.append((min(touching), max(touching), needle.queried))
    return spans


def largest_size(needed, length, floor, most):
    """Largest size whose draw fits, trying one after the other."""
    size = floor
    while size < most and needed(size + 1) <= length:
        size += 1
    return size


def frequencies(size, ranks):
    """Shares of a zeta distribution of exponent 2, as whole counts; smaller scales until rank 4 beats rank 5."""
    counts = [int(size * rank**-2.0 / zeta(2.0)) for rank in range(1, max(ranks, 5) + 1)]
    return counts[:ranks] if counts[3] > counts[4] else frequencies(size - 1, ranks)


def listed_words(line):
    """The words of a numbered list, counted."""
    numbers = re.findall(r"(?:^| )(\d+)\. ", line)
    assert numbers == [str(place) for place in range(1, len(numbers) + 1)]
    return collections.Counter(re.split(r"(?:^| )\d+\. ", line)[1:])


def _names(rng, letters, count, alphabet):
    names = []
    while len(names) < count:
        name = "".join(rng.choices(alphabet, k=letters))
        if name not in names:
            names.append(name)
    return names


def chain_lines(seed, length, index, example_lines, noise, count):
    """The lines of vt: the example's and the sample's, each a noise list with statements put in one by one."""
    rng = random.Random(f"{seed}/vt/{length}/{index}")
    numbers = rng.sample(range(10_000, 100_000), 2)
    parts = []
    for number, lines, letters in zip(numbers, (example_lines, count), (3, 5), strict=True):
        names = _names(rng, letters, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        context = [noise] * lines
        places = sorted(rng.sample(range(lines), 5))
        for place, name in reversed(list(enumerate(names))):
            given = names[place - 1] if place else number
            context.insert(places[place], f"SET {name} := {given}")
        parts.append((context, names, str(number)))
    return parts


def coded_text(seed, length, index, size):
    """The words of fwe and its three answers."""
    rng = random.Random(f"{seed}/fwe/{length}/{index}")
    words = _names(rng, 6, (length - 50) // 50, "abcdefghijklmnopqrstuvwxyz")
    text = []
    for rank, count in enumerate(frequencies(size, len(words))):
        text += ["..." if rank == 0 else words[rank]] * count
    rng.shuffle(text)
    return text, words[1:4]


def word_lists(seed, length, index, size, vocabulary, repeats):
    """The two lists of cwe, example first; ``repeats`` is (common, others, words, common, others) as in RULER."""
    rng = random.Random(f"{seed}/cwe/{length}/{index}")
    words = rng.sample(sorted(vocabulary), repeats[2] + size)
    lists = []
    for own, common, others in ((words[: repeats[2]], *repeats[3:]), (words[repeats[2] :], *repeats[:2])):
        entries = [own[place % 10] for place in range(10 * common)]
        rest = own[10:]
        entries += [rest[place % len(rest)] for place in range(len(rest) * others)]
        rng.shuffle(entries)
        lists.append((entries, own[:10]))
    return lists
