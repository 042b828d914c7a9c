-- LongBench at the primary split: every arm of a suite on the items of the exact arm, with exact's own values beside.
WITH here AS (
    SELECT *
    FROM measure
    WHERE (split = $split OR list_contains($own, arm)) AND metric IN ('longbench_v1', 'longbench_v2')
)
SELECT i.metric, a.arm, i.stratum, i.item, m.parts, i.parts
FROM (SELECT DISTINCT metric, arm FROM here) AS a
INNER JOIN (SELECT metric, stratum, item, parts FROM here WHERE arm = 'exact') AS i ON i.metric = a.metric
LEFT JOIN here AS m ON m.metric = a.metric AND m.arm = a.arm AND m.item = i.item
ORDER BY i.metric, a.arm, i.stratum, i.item;
