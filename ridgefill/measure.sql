-- The items of one metric for one arm and its baseline at one split, paired, in a fixed order.
-- $own lists the arms that keep a split of their own whatever $split is.
WITH chosen AS (
    SELECT *
    FROM measure
    WHERE
        metric = $metric
        AND (split = $split OR list_contains($own, arm))
        AND (
            $subset IS NULL
            OR stratum = $subset
            OR list_contains(string_split(stratum, '@'), $subset)
        )
)
SELECT i.stratum, i.item, a.parts, b.parts
FROM (SELECT DISTINCT stratum, item FROM chosen WHERE arm IN ('exact', $arm, $baseline)) AS i
LEFT JOIN chosen AS a ON a.item = i.item AND a.arm = $arm
LEFT JOIN chosen AS b ON b.item = i.item AND b.arm = $baseline
ORDER BY i.stratum, i.item;
