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
