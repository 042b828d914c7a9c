-- Timed requests of every arm, each beside exact on the same prompt; the ones that warmed up were not written.
SELECT length, arm, split, exact_seconds, seconds, filled_rows, exact_rows, macs, exact_macs, peak_bytes,
    exact_peak_bytes
FROM speed_requests
ORDER BY length, arm, repeat;
