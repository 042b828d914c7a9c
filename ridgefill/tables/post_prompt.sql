-- The tokens that follow a document's prompt, under each arm at the primary split: by document, how many there are, how
-- many could have been copied, and each one's top-1 (points) and KL from exact (nats).
SELECT
    arm,
    'length@' || prompt_tokens AS stratum,
    document,
    count(*) AS tokens,
    count(*) FILTER (WHERE copyable) AS copyable,
    list(CASE WHEN top1 THEN 100.0::DOUBLE ELSE 0.0::DOUBLE END ORDER BY position) AS top1,
    list(kl::DOUBLE ORDER BY position) AS kl
FROM agreement_tokens
WHERE variant = 'text' AND arm <> 'exact' AND (split = $split OR list_contains($own, arm))
GROUP BY arm, prompt_tokens, document
ORDER BY arm, stratum, document;
