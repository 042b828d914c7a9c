-- Views over one results folder. In that folder: duckdb -init views.sql
-- Paths are relative to the folder. Views select; means and intervals are computed outside SQL, because
-- a parallel avg() adds in a different order on every run.

CREATE VIEW ruler_samples AS
    SELECT * FROM read_parquet('ruler/samples.parquet', hive_partitioning = false);
CREATE VIEW documents AS
    SELECT * FROM read_parquet('documents/documents.parquet', hive_partitioning = false);
CREATE VIEW document_tokens AS
    SELECT * FROM read_parquet('documents/tokens.parquet', hive_partitioning = false);
CREATE VIEW lam_curve AS
    SELECT * FROM read_parquet('lam/lam_curve.parquet', hive_partitioning = false);
CREATE VIEW fit_layers AS
    SELECT * FROM read_parquet('fit/fit_layers.parquet', hive_partitioning = false);
CREATE VIEW timings AS
    SELECT * FROM read_parquet('ruler/timings.parquet', hive_partitioning = false)
    UNION ALL
    SELECT * FROM read_parquet('documents/timings.parquet', hive_partitioning = false);

-- One row per (metric, arm, split, item). The item's value is the mean of `parts`: 100 x the score for a
-- RULER sample (points), the token losses in position order for a document (nats). NULL parts: it failed.
CREATE VIEW ruler_items AS
    SELECT
        arm,
        split,
        task,
        length,
        task || '@' || length AS stratum,
        task || '/' || length || '/' || lpad(sample::VARCHAR, 5, '0') AS item,
        in_filled_region,
        CASE WHEN status = 'ok' AND score IS NOT NULL THEN [100.0::DOUBLE * score] END AS parts
    FROM ruler_samples;

CREATE VIEW document_items AS
    WITH kinds(metric) AS (VALUES ('nll_all'), ('nll_novel'), ('nll_key'))
    SELECT
        metric,
        arm,
        split,
        domain AS stratum,
        document AS item,
        CASE
            WHEN bool_and(status = 'ok' AND nll IS NOT NULL) THEN list(nll::DOUBLE ORDER BY position)
        END AS parts
    FROM document_tokens, kinds
    WHERE metric = 'nll_all' OR (metric = 'nll_novel' AND novel) OR (metric = 'nll_key' AND key)
    GROUP BY metric, arm, split, domain, document;

CREATE VIEW measure AS
    SELECT 'ruler_all' AS metric, arm, split, stratum, item, parts FROM ruler_items
    UNION ALL
    SELECT 'ruler_filled', arm, split, stratum, item, parts FROM ruler_items WHERE in_filled_region
    UNION ALL
    SELECT 'ruler_' || task, arm, split, stratum, item, parts FROM ruler_items
    UNION ALL
    SELECT metric, arm, split, stratum, item, parts FROM document_items;

CREATE VIEW lam_more_maps AS
    SELECT * FROM read_parquet('lam/more_maps.parquet', hive_partitioning = false);
CREATE VIEW ruler_arms AS
    SELECT * FROM read_parquet('ruler/arms.parquet', hive_partitioning = false);
CREATE VIEW ruler_measured AS
    SELECT * FROM read_parquet('ruler/measured.parquet', hive_partitioning = false);
CREATE VIEW documents_arms AS
    SELECT * FROM read_parquet('documents/arms.parquet', hive_partitioning = false);
CREATE VIEW documents_measured AS
    SELECT * FROM read_parquet('documents/measured.parquet', hive_partitioning = false);
CREATE VIEW turns_samples AS
    SELECT * FROM read_parquet('turns/samples.parquet', hive_partitioning = false);

ALTER VIEW measure RENAME TO measure_everywhere;
CREATE VIEW measure AS
    SELECT * FROM measure_everywhere
    UNION ALL
    SELECT * FROM (
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
    );
