-- What longbench_v2/samples.parquet adds to the measure view: 100 for a right letter, 0 for a wrong one and for none. An
-- item without any text has no parts. The stratum says which groups an item is in: intervals are over items, not within.
SELECT
    'longbench_v2' AS metric,
    arm,
    split,
    difficulty || '@' || length || '@' || domain AS stratum,
    item,
    CASE
        WHEN status <> 'empty' AND correct IS NOT NULL
            THEN [CASE WHEN correct THEN 100.0::DOUBLE ELSE 0.0::DOUBLE END]
    END AS parts
FROM longbench_v2_samples
