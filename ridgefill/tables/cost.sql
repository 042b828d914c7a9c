-- Work and time of every arm at the primary split: multiply-accumulates are exact integer sums, the
-- clock's readings come as lists over prompts in a fixed order.
WITH work AS (
    SELECT 'ruler' AS suite, arm, split, count(*) AS prompts, sum(macs) AS macs, sum(exact_macs) AS exact_macs
    FROM ruler_samples
    GROUP BY arm, split
    UNION ALL
    SELECT 'documents', arm, split, count(*), sum(macs), sum(exact_macs)
    FROM documents
    GROUP BY arm, split
),
clock AS (
    SELECT
        suite,
        arm,
        split,
        list(lower_seconds + late_seconds ORDER BY item) AS seconds,
        list(exact_seconds ORDER BY item) AS exact_seconds
    FROM timings
    WHERE exact_seconds > 0
    GROUP BY suite, arm, split
)
SELECT
    w.suite,
    w.arm,
    w.prompts,
    w.macs,
    w.exact_macs,
    coalesce(c.seconds, []) AS seconds,
    coalesce(c.exact_seconds, []) AS exact_seconds
FROM work AS w
LEFT JOIN clock AS c ON c.suite = w.suite AND c.arm = w.arm AND c.split IS NOT DISTINCT FROM w.split
WHERE w.split = $split OR list_contains($own, w.arm)
ORDER BY w.suite DESC, w.arm;
