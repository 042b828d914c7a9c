-- What arms spend beside filling, at the primary split or at their own: exact integer sums over the prompts of each suite.
WITH runs AS (
    SELECT * FROM ruler_arms
    UNION ALL
    SELECT * FROM documents_arms
)
SELECT
    suite,
    arm,
    count(*) AS prompts,
    sum(tail) AS tails,
    sum(len(selected)) AS selected,
    sum(selection_macs) AS selection,
    sum(correction_macs) AS correction,
    sum(exact_macs) AS exact_macs,
    any_value(matched_to) AS matched_to,
    list([macs, target_macs] ORDER BY item) FILTER (WHERE target_macs IS NOT NULL) AS matched
FROM runs
WHERE split = $split OR list_contains($own, arm)
GROUP BY suite, arm
ORDER BY suite DESC, arm;
