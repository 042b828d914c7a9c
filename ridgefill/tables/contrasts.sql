-- Paired comparisons at the primary split: both arms of each pair on the items of the exact arm, where both were run.
WITH pairs(place, arm, baseline) AS (
    VALUES
    (1, 'ridgefill', 'identity'),
    (2, 'ridgefill', 'exact'),
    (3, 'ridgefill', 'no_fill_longer_tail'),
    (4, 'ridgefill_rows', 'ridgefill_random_rows'),
    (5, 'ridgefill_rows', 'ridgefill_longer_tail')
),
here AS (
    SELECT *
    FROM measure
    WHERE
        (split = $split OR list_contains($own, arm))
        AND metric IN (
            'ruler_all', 'ruler_filled', 'nll_all', 'nll_novel', 'nll_key', 'agreement_top1', 'agreement_kl', 'turn2',
            'longbench_v1', 'longbench_v2'
        )
),
present AS (
    SELECT p.*, a.metric
    FROM pairs AS p
    INNER JOIN (SELECT DISTINCT arm, metric FROM here) AS a ON a.arm = p.arm
    INNER JOIN (SELECT DISTINCT arm, metric FROM here) AS b ON b.arm = p.baseline AND b.metric = a.metric
)
SELECT p.place, p.arm, p.baseline, i.metric, i.stratum, i.item, a.parts, b.parts
FROM present AS p
INNER JOIN (SELECT metric, stratum, item FROM here WHERE arm = 'exact') AS i ON i.metric = p.metric
LEFT JOIN here AS a ON a.arm = p.arm AND a.metric = i.metric AND a.item = i.item
LEFT JOIN here AS b ON b.arm = p.baseline AND b.metric = i.metric AND b.item = i.item
ORDER BY p.place, i.metric, i.stratum, i.item;
