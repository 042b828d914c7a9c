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
CREATE VIEW served_requests AS
    SELECT * FROM read_parquet('served/requests.parquet', hive_partitioning = false);
CREATE VIEW served_runs AS
    SELECT * FROM read_parquet('served/runs.parquet', hive_partitioning = false);
CREATE VIEW served_pairs AS
    SELECT * FROM read_parquet('served/pairs.parquet', hive_partitioning = false);

ALTER VIEW measure RENAME TO measure_everywhere;
CREATE VIEW measure AS
    SELECT * FROM measure_everywhere
    UNION ALL
    SELECT * FROM (
-- What served/requests.parquet adds to the measure view: how much of the ceiling by work each pair of requests reached,
-- in points of 100, by prompt length.
SELECT
    'served_ceiling' AS metric,
    arm,
    split,
    length::VARCHAR AS stratum,
    length || '/' || lpad(repeat::VARCHAR, 5, '0') AS item,
    [100.0::DOUBLE * (exact_seconds / seconds) / (exact_macs::DOUBLE / macs::DOUBLE)] AS parts
FROM served_requests
    )
    UNION ALL
    SELECT * FROM (
-- What served/pairs.parquet adds to the measure view, of requests too short to fill: seconds to the first token and of
-- decoding as 100 times the logarithm of their ratio to the stock server's for the same prompt (0 for that server
-- itself), and whether all tokens are the stock server's, in points of 100. Requests that were sent together are one item.
SELECT metric, arm, split, phase AS stratum, phase || '/' || lpad(number::VARCHAR, 5, '0') AS item, parts
FROM (
    SELECT
        a.phase,
        a.number,
        a.arm,
        a.split,
        list(100.0::DOUBLE * ln(a.first_token_seconds / s.first_token_seconds) ORDER BY a.place) AS served_first,
        list(100.0::DOUBLE * ln(a.decode_seconds / s.decode_seconds) ORDER BY a.place) AS served_decode,
        list(CASE WHEN a.tokens = s.tokens THEN 100.0::DOUBLE ELSE 0.0::DOUBLE END ORDER BY a.place) AS served_same
    FROM served_pairs AS a
    JOIN served_pairs AS s
        ON s.phase = a.phase AND s.number = a.number AND s.place = a.place AND s.role = a.role AND s.arm = 'exact'
    WHERE a.role = 'short'
    GROUP BY a.phase, a.number, a.arm, a.split
)
UNPIVOT (parts FOR metric IN (served_first, served_decode, served_same))
    );
