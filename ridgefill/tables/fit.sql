-- The fitted maps of every split: the chosen lam, conditioning, and what the regression leaves unexplained.
SELECT
    split,
    count(*) AS layers,
    min(lam) AS lam,
    max(condition) AS worst_condition,
    list(residual_share ORDER BY layer) AS residual_shares
FROM fit_layers
GROUP BY split
ORDER BY split;
