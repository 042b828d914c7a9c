-- Requests too short to fill, on a server that fills: one row for each round, whose values are those of its requests
-- against the stock server's for the same prompts.
SELECT m.stratum AS phase, m.arm, m.metric, m.item, m.parts
FROM measure AS m
WHERE m.metric IN ('served_first', 'served_decode', 'served_same') AND m.arm <> 'exact'
ORDER BY phase, m.arm, m.metric, m.item;
