"""LongBench's scores and cuts written straight from their definitions, for short inputs only."""

import string


def lcs(first, second):
    """Words of a longest common subsequence by plain recursion; of equals, the one without second's last word."""
    if not first or not second:
        return []
    if first[-1] == second[-1]:
        return [*lcs(first[:-1], second[:-1]), first[-1]]
    without_second = lcs(first, second[:-1])
    without_first = lcs(first[:-1], second)
    return without_first if len(without_first) > len(without_second) else without_second


def lcs_length(first, second):
    """The greatest number of places of ``first`` that can be kept so that they read like a part of ``second``."""
    best = 0
    for kept in range(2 ** len(first)):
        chosen = [word for place, word in enumerate(first) if kept >> place & 1]
        if len(chosen) > best and is_subsequence(chosen, second):
            best = len(chosen)
    return best


def is_subsequence(part, whole):
    """Whether ``part`` is ``whole`` with some places left out."""
    place = 0
    for word in whole:
        if place < len(part) and part[place] == word:
            place += 1
    return place == len(part)


def rouge_l(prediction, reference):
    """Shares of different words that lie in a longest common subsequence of any two sentences."""
    answers = [" ".join(part.split()).split(" ") for part in prediction.split(".") if part != ""]
    targets = [" ".join(part.split()).split(" ") for part in reference.split(".") if part != ""]
    if not answers or not targets:
        return 0.0
    found = {word for target in targets for answer in answers for word in lcs(target, answer)}
    precision = len(found) / len({word for answer in answers for word in answer})
    recall = len(found) / len({word for target in targets for word in target})
    return 2 * precision * recall / (precision + recall + 1e-8)


def edit_ratio(prediction, reference):
    """One minus the share of characters that have to be deleted or inserted, in whole hundredths."""
    letters = len(prediction) + len(reference)
    if letters == 0:
        return 1.0
    edits = letters - 2 * lcs_length(prediction, reference)
    return round(100 * (1 - edits / letters)) / 100


def squad_words(text):
    """One character, then one word at a time."""
    kept = ""
    for letter in text.lower():
        if letter not in string.punctuation:
            kept += letter
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def f1(prediction, reference):
    """Each word of the answer crosses one equal word off the reference."""
    answer, left = squad_words(prediction), squad_words(reference)
    total = len(left)
    hits = 0
    for word in answer:
        if word in left:
            left.remove(word)
            hits += 1
    if hits == 0:
        return 0.0
    precision, recall = hits / len(answer), hits / total
    return 2 * precision * recall / (precision + recall)


def numbers(text):
    """Runs of digits, one character at a time."""
    runs, run = [], ""
    for letter in text + " ":
        if letter in string.digits:
            run += letter
        elif run:
            runs.append(run)
            run = ""
    return runs


def share_of_numbers(prediction, wanted):
    """How many of the numbers are the wanted one."""
    found = numbers(prediction)
    return sum(number == wanted for number in found) / len(found) if found else 0.0


def classes_left(named, reference):
    """Named classes in order: after a proper part of the reference is dropped, the next one is not looked at."""
    if not named:
        return []
    first, rest = named[0], named[1:]
    if first != reference and first in reference:
        return rest[:1] + classes_left(rest[1:], reference)
    return [first, *classes_left(rest, reference)]


def classification(prediction, reference, classes):
    """One over the number of classes left, if the reference is one of them."""
    left = classes_left([name for name in classes if name in prediction], reference)
    return 1 / len(left) if reference in left else 0.0


def cut_middle(ids, budget):
    """Take the token in the middle out until what is left is even and fits."""
    ids = list(ids)
    if len(ids) <= budget:
        return ids
    while len(ids) > budget or len(ids) % 2:
        del ids[len(ids) // 2]
    return ids


def extract_choice(text):
    """Try every place of the phrase, in parentheses first."""
    plain = "".join(letter for letter in text if letter != "*")
    phrase = "The correct answer is "
    after = [plain[place + len(phrase) :] for place in range(len(plain)) if plain.startswith(phrase, place)]
    for rest in after:
        if len(rest) >= 3 and rest[0] == "(" and rest[1] in "ABCD" and rest[2] == ")":
            return rest[1]
    for rest in after:
        if rest and rest[0] in "ABCD":
            return rest[0]
    return None
