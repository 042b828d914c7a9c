-- Runs of a long prompt among decoding users of a server: filled, and exact just before or after it.
SELECT a.length, a.arm, a.first_token_seconds, a.tokens_per_second, a.latencies, e.first_token_seconds,
    e.tokens_per_second, e.latencies
FROM served_runs AS a
JOIN served_runs AS e ON e.pair = a.pair AND e.length = a.length AND e.repeat = a.repeat AND e.arm = 'exact'
WHERE a.arm <> 'exact'
ORDER BY a.length, a.arm, a.repeat;
