-- Runs of a long prompt among decoding users: an arm, and exact on the same prompts just before it.
SELECT a.length, a.arm, a.first_token_seconds, a.tokens_per_second, a.latencies, e.first_token_seconds,
    e.tokens_per_second, e.latencies
FROM serving_runs AS a
JOIN serving_runs AS e ON e.pair = a.pair AND e.length = a.length AND e.repeat = a.repeat AND e.arm = 'exact'
WHERE a.arm <> 'exact'
ORDER BY a.length, a.arm, a.repeat;
