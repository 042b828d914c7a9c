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
