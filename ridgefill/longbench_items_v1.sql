-- What longbench_v1/samples.parquet adds to the measure view: points of every answer, by dataset.
SELECT
    'longbench_v1' AS metric,
    arm,
    split,
    dataset AS stratum,
    dataset || '/' || lpad(sample::VARCHAR, 5, '0') AS item,
    CASE WHEN status = 'ok' AND score IS NOT NULL THEN [100.0::DOUBLE * score] END AS parts
FROM longbench_v1_samples
