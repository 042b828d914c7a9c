-- Requests timed at the client of a server, filled beside exact, each with a prompt of its own.
SELECT length, arm, split, exact_seconds, seconds, filled_rows, exact_rows, macs, exact_macs, peak_bytes,
    exact_peak_bytes
FROM served_requests
ORDER BY length, arm, repeat;
