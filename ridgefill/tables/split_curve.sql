-- Split curve: the arms that were run at more than one split, each paired with the exact arm.
WITH curve AS (
    SELECT arm, split
    FROM (SELECT DISTINCT arm, split FROM measure WHERE split IS NOT NULL)
    QUALIFY count(*) OVER (PARTITION BY arm) > 1
),
base AS (
    SELECT metric, stratum, item, parts
    FROM measure
    WHERE arm = 'exact' AND metric IN ('ruler_all', 'ruler_filled', 'nll_all', 'nll_key')
)
SELECT c.split, c.arm, base.metric, base.stratum, base.item, m.parts, base.parts
FROM curve AS c
CROSS JOIN base
LEFT JOIN measure AS m
    ON m.arm = c.arm AND m.split = c.split AND m.metric = base.metric AND m.item = base.item
ORDER BY c.split, c.arm, base.metric, base.stratum, base.item;
