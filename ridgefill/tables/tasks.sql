-- RULER points by arm, task and length at the primary split, on all samples.
SELECT arm, task, length, stratum, item, parts
FROM ruler_items
WHERE split = $split OR list_contains($own, arm)
ORDER BY arm, task, length, item;
