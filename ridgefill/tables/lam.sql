-- Held-out cosine of the written cache entries over the lam grid, one list over the late layers.
SELECT
    c.split,
    c.lam,
    c.component,
    list(c.cosine ORDER BY c.layer) AS cosines,
    any_value(p.lam) IS NOT DISTINCT FROM c.lam AS picked
FROM lam_curve AS c
LEFT JOIN (SELECT split, min(lam) AS lam FROM fit_layers GROUP BY split) AS p ON p.split = c.split
GROUP BY c.split, c.lam, c.component
ORDER BY c.split, c.lam, c.component;
