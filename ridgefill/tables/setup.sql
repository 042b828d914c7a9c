-- Sizes of the sets, counted on the exact arm (every arm sees the same items).
SELECT
    (SELECT count(*) FROM ruler_samples WHERE arm = 'exact') AS samples,
    (SELECT count(*) FROM ruler_samples WHERE arm = 'exact' AND in_filled_region) AS filled_samples,
    (SELECT count(*) FROM ruler_samples WHERE arm = 'exact' AND in_filled_region_queried) AS queried_samples,
    (SELECT count(DISTINCT task) FROM ruler_samples) AS tasks,
    (SELECT max(prompt_tokens) FROM ruler_samples WHERE arm = 'exact') AS longest_prompt,
    (SELECT count(*) FROM documents WHERE arm = 'exact') AS documents,
    (SELECT count(DISTINCT domain) FROM documents) AS domains,
    (SELECT count(*) FROM document_tokens WHERE arm = 'exact') AS scored_tokens,
    (SELECT count(*) FROM document_tokens WHERE arm = 'exact' AND novel) AS novel_tokens,
    (SELECT count(*) FROM document_tokens WHERE arm = 'exact' AND key) AS key_tokens,
    (SELECT count(DISTINCT document) FROM document_tokens WHERE arm = 'exact' AND key) AS key_documents;
