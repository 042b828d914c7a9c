-- What agreement/tokens.parquet adds to the measure view, along the exact arm's greedy tokens (agreement_*) and along
-- those of the text (agreement_text_*): top-1 in points, KL in nats, a document's median of it.
WITH variants(variant, metric) AS (VALUES ('greedy', 'agreement'), ('text', 'agreement_text')),
read AS (
    SELECT
        metric,
        arm,
        split,
        'length@' || prompt_tokens AS stratum,
        document AS item,
        list(CASE WHEN top1 THEN 100.0::DOUBLE ELSE 0.0::DOUBLE END ORDER BY position) AS top1,
        CASE WHEN bool_and(kl IS NOT NULL) THEN list(kl::DOUBLE ORDER BY position) END AS kl,
        CASE WHEN bool_and(kl IS NOT NULL) THEN [median(kl::DOUBLE)] END AS middle
    FROM agreement_tokens
    INNER JOIN variants USING (variant)
    GROUP BY metric, arm, split, prompt_tokens, document
)
SELECT metric || '_top1' AS metric, arm, split, stratum, item, top1 AS parts FROM read
UNION ALL
SELECT metric || '_kl', arm, split, stratum, item, kl FROM read
UNION ALL
SELECT metric || '_kl_median', arm, split, stratum, item, middle FROM read
