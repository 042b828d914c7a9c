-- Splices at the primary split: each arm, the plain fill and the exact arm on the items of the exact arm.
WITH arms(place, arm) AS (
    VALUES
    (1, 'ridgefill'),
    (2, 'splice_exact_keys'),
    (3, 'splice_exact_values'),
    (4, 'splice_exact_keys_values'),
    (5, 'splice_exact_states'),
    (6, 'splice_exact_all'),
    (7, 'scale_keys_tail'),
    (8, 'scale_values_tail'),
    (9, 'ridgefill_state_correction')
),
here AS (
    SELECT *
    FROM measure
    WHERE (split = $split OR list_contains($own, arm)) AND metric IN ('nll_novel', 'ruler_filled')
),
present AS (
    SELECT *
    FROM arms
    WHERE arm IN (SELECT arm FROM here)
)
SELECT p.place, p.arm, i.metric, i.stratum, i.item, a.parts, f.parts, i.parts
FROM present AS p
CROSS JOIN (SELECT metric, stratum, item, parts FROM here WHERE arm = 'exact') AS i
LEFT JOIN here AS a ON a.arm = p.arm AND a.metric = i.metric AND a.item = i.item
LEFT JOIN here AS f ON f.arm = 'ridgefill' AND f.metric = i.metric AND f.item = i.item
ORDER BY p.place, i.metric, i.stratum, i.item;
