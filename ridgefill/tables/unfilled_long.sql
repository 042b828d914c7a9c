-- Long prompts that the same two servers were given between those requests, or with them: filled, and the stock server's.
SELECT a.phase, a.arm, a.number, a.place, a.first_token_seconds, s.first_token_seconds
FROM served_pairs AS a
JOIN served_pairs AS s
    ON s.phase = a.phase AND s.number = a.number AND s.place = a.place AND s.role = a.role AND s.arm = 'exact'
WHERE a.role = 'long' AND a.arm <> 'exact'
ORDER BY a.phase, a.arm, a.number, a.place;
