"""Longest common subsequences, and the two scores made of them: ROUGE-L and the edit ratio of code."""

from __future__ import annotations

from collections.abc import Sequence

_SOFTENER = 1e-8
"""Keeps the F-measure of two texts without a common word finite; the ``rouge`` package adds the same."""


def lcs_lengths(first: Sequence[str], second: Sequence[str]) -> list[list[int]]:
    """``[len(first) + 1][len(second) + 1]`` lengths of the longest common subsequences of all prefixes."""
    rows = [[0] * (len(second) + 1)]
    for one in first:
        above, row = rows[-1], [0]
        for place, other in enumerate(second):
            row.append(above[place] + 1 if one == other else max(above[place + 1], row[place]))
        rows.append(row)
    return rows


def common_words(reference: Sequence[str], answer: Sequence[str]) -> set[str]:
    """The words of one longest common subsequence, read from the ends.

    Of several, the one reached by giving up the answer's last word wherever that costs nothing.
    """
    lengths = lcs_lengths(reference, answer)
    found: set[str] = set()
    i, j = len(reference), len(answer)
    while i and j:
        if reference[i - 1] == answer[j - 1]:
            found.add(reference[i - 1])
            i, j = i - 1, j - 1
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found


def rouge_l(prediction: str, reference: str) -> float:
    """ROUGE-L F-measure of two texts as the package ``rouge`` 1.0.1 defines it, which the official scores use.

    Sentences end at full stops, words at white space, and a blank sentence counts as one empty word. Precision
    and recall are shares of *different* words: those in a longest common subsequence of any two sentences,
    over all of the prediction, and over all of the reference. 0 when either has no sentence. (The package
    walks by recursion and its official caller turns the overflow on very long sentences into 0; here
    they are scored.)
    """
    answers, references = _sentences(prediction), _sentences(reference)
    if not answers or not references:
        return 0.0
    found = set().union(*(common_words(target, answer) for target in references for answer in answers))
    precision = len(found) / len(set().union(*answers))
    recall = len(found) / len(set().union(*references))
    return 2.0 * (precision * recall / (precision + recall + _SOFTENER))


def _sentences(text: str) -> list[list[str]]:
    return [part.split() or [""] for part in text.split(".") if part]


def edit_ratio(prediction: str, reference: str) -> float:
    """Twice the longest common subsequence over the summed lengths, in characters, rounded to hundredths.

    This is ``fuzz.ratio`` over 100 where python-Levenshtein is installed (insertions and deletions, no
    substitutions); without it that function falls back on difflib, whose ratio is another one. Two empty
    texts are equal.
    """
    if prediction == reference:
        return 1.0
    common = lcs_lengths(prediction, reference)[-1][-1]
    return round(100 * (2 * common / (len(prediction) + len(reference)))) / 100
