-- What turns/samples.parquet adds to the measure view: points of the first and of the second answer, on the samples
-- whose needles all lie in the filled region.
SELECT
    'turn' || turn AS metric,
    arm,
    split,
    task || '@' || length AS stratum,
    task || '/' || length || '/' || lpad(sample::VARCHAR, 5, '0') AS item,
    CASE WHEN status = 'ok' AND score IS NOT NULL THEN [100.0::DOUBLE * score] END AS parts
FROM (
    SELECT *, 1 AS turn, first_score AS score FROM turns_samples
    UNION ALL
    SELECT *, 2, second_score FROM turns_samples
)
WHERE in_filled_region
