-- The items of one metric in one set, with the values of an arm and its baseline, in a fixed order. An arm
-- without a split belongs to every split. `strata` and `most` above 1 say that an item is not one thing.
WITH chosen AS (
    SELECT arm, item, coalesce(stratum, '') AS stratum, value
    FROM measured
    WHERE
        metric = $metric
        AND ($model IS NULL OR model = $model)
        AND ($split IS NULL OR split IS NULL OR split = $split)
        AND ($subset IS NULL OR subset = $subset)
)
SELECT
    min(stratum) AS stratum,
    max(value) FILTER (WHERE arm = $arm) AS a,
    max(value) FILTER (WHERE arm = $baseline) AS b,
    count(DISTINCT stratum) AS strata,
    greatest(count(*) FILTER (WHERE arm = $arm), count(*) FILTER (WHERE arm = $baseline)) AS most
FROM chosen
GROUP BY item
ORDER BY stratum, item;
