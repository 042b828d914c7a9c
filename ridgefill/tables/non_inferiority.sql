-- Non-inferiority in the filled region: every arm that fills rows at the primary split (or at its own), and both arms
-- that something is not to fall behind, on the items of the exact arm.
WITH here AS (
    SELECT *
    FROM measure
    WHERE (split = $split OR list_contains($own, arm)) AND metric = 'ruler_filled'
),
filling AS (
    SELECT arm
    FROM ruler_samples
    WHERE split = $split OR list_contains($own, arm)
    GROUP BY arm
    HAVING max(filled_rows) > 0
),
pairs AS (
    SELECT f.arm, b.baseline, b.place
    FROM filling AS f
    INNER JOIN (VALUES (1, 'exact'), (2, 'pop_native')) AS b(place, baseline) ON b.baseline <> f.arm
    WHERE b.baseline IN (SELECT arm FROM here)
)
SELECT p.place, p.baseline, p.arm, i.stratum, i.item, a.parts, b.parts
FROM pairs AS p
CROSS JOIN (SELECT stratum, item FROM here WHERE arm = 'exact') AS i
LEFT JOIN here AS a ON a.arm = p.arm AND a.item = i.item
LEFT JOIN here AS b ON b.arm = p.baseline AND b.item = i.item
ORDER BY p.place, p.arm, i.stratum, i.item;
