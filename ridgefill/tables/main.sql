-- Main table: every arm at the primary split (or at its own), paired item by item with the exact arm.
WITH arms AS (
    SELECT DISTINCT arm, split
    FROM measure
    WHERE split = $split OR list_contains($own, arm)
),
base AS (
    SELECT metric, stratum, item, parts
    FROM measure
    WHERE arm = 'exact' AND metric IN ('ruler_all', 'ruler_filled', 'nll_all', 'nll_novel', 'nll_key')
)
SELECT arms.arm, base.metric, base.stratum, base.item, m.parts, base.parts
FROM arms
CROSS JOIN base
LEFT JOIN measure AS m
    ON
        m.arm = arms.arm
        AND m.split IS NOT DISTINCT FROM arms.split
        AND m.metric = base.metric
        AND m.item = base.item
ORDER BY arms.arm, base.metric, base.stratum, base.item;
