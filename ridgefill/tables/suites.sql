-- Agreement with exact and two turns at the primary split: every arm of a suite on the items of the exact arm.
WITH here AS (
    SELECT *
    FROM measure
    WHERE
        (split = $split OR list_contains($own, arm))
        AND metric IN ('agreement_top1', 'agreement_kl', 'agreement_kl_median', 'turn1', 'turn2')
)
SELECT a.arm, i.metric, i.stratum, i.item, m.parts
FROM (SELECT DISTINCT arm, metric FROM here) AS a
INNER JOIN (SELECT metric, stratum, item FROM here WHERE arm = 'exact') AS i ON i.metric = a.metric
LEFT JOIN here AS m ON m.arm = a.arm AND m.metric = i.metric AND m.item = i.item
ORDER BY a.arm, i.metric, i.stratum, i.item;
