-- Token losses at the primary split: every arm beside exact on the documents of exact, over all tokens, novel tokens,
-- repeated ones (those that are not novel) and key tokens. Parts are the losses in position order; NULL: one failed.
WITH kinds(place, kind) AS (VALUES (1, 'all'), (2, 'novel'), (3, 'repeated'), (4, 'key')),
here AS (
    SELECT
        place,
        kind,
        arm,
        domain AS stratum,
        document AS item,
        CASE
            WHEN bool_and(status = 'ok' AND nll IS NOT NULL) THEN list(nll::DOUBLE ORDER BY position)
        END AS parts
    FROM document_tokens, kinds
    WHERE
        (split = $split OR list_contains($own, arm))
        AND (
            kind = 'all'
            OR (kind = 'novel' AND novel)
            OR (kind = 'repeated' AND NOT novel)
            OR (kind = 'key' AND key)
        )
    GROUP BY place, kind, arm, domain, document
)
SELECT a.arm, i.kind, i.stratum, i.item, m.parts, i.parts
FROM (SELECT DISTINCT arm FROM here WHERE arm <> 'exact') AS a
CROSS JOIN (SELECT * FROM here WHERE arm = 'exact') AS i
LEFT JOIN here AS m ON m.arm = a.arm AND m.kind = i.kind AND m.item = i.item
ORDER BY a.arm, i.place, i.stratum, i.item;
