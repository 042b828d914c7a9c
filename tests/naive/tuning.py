"""The rules of a search, slow and obvious."""

from itertools import combinations


def front(points):
    """Points that no other is as cheap and as good as, and different from, by comparing all pairs."""
    kept = []
    for one in points:
        beaten = False
        for other in points:
            as_cheap, as_good = other.share <= one.share, other.quality >= one.quality
            if as_cheap and as_good and (other.share < one.share or other.quality > one.quality):
                beaten = True
        if not beaten:
            kept.append(one)
    return sorted(kept, key=lambda one: (one.share, one.key))


def recommended(points, scores, losses, budget):
    """The choice written as filters, one after the other."""
    inside = [one for one in points if one.share <= budget]
    most = max(one.quality for one in inside)
    best = [one for one in inside if one.quality == most]
    cheapest = min(one.share for one in best)
    best = min((one for one in best if one.share == cheapest), key=lambda one: one.key)
    alike = []
    for one in inside:
        differences = [a - b for a, b in zip(scores[best.key], scores[one.key], strict=True)]
        n = len(differences)
        mean = sum(differences) / n
        variance = sum((d - mean) ** 2 for d in differences) / (n - 1) if n > 1 else 0.0
        if mean <= (variance / n) ** 0.5 + 1e-12:
            alike.append(one)
    least = min(losses[one.key] for one in alike)
    alike = [one for one in alike if losses[one.key] == least]
    cheapest = min(one.share for one in alike)
    return min((one for one in alike if one.share == cheapest), key=lambda one: one.key)


def groups(texts, run):
    """Names of texts that share ``run`` words in a row, merged until nothing merges."""

    def runs(text):
        words = text.lower().replace(".", " ").split()
        return {tuple(words[i : i + run]) for i in range(len(words) - run + 1)}

    found = [({name}, runs(text)) for name, text in texts]
    merged = True
    while merged:
        merged = False
        for a, b in combinations(found, 2):
            if a[1] & b[1]:
                found = [one for one in found if one is not a and one is not b]
                found.append((a[0] | b[0], a[1] | b[1]))
                merged = True
                break
    return {frozenset(names) for names, _ in found}
