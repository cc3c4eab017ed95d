-- Rows of the figure of the accuracy-latency frontier: one per method and tier (kind `run`), per reference point of the
-- run's tiers (`reference`), and per tier with LAFS of the reference points and every method together (`all`).
-- Latency: mean seconds of the query call. Accuracy, `lafs` and `gain` in percentage points. `errors` of `all_rows` have
-- no score.
WITH totals AS (
    SELECT method, tier, count(error) AS errors, count(*) AS all_rows FROM outcomes GROUP BY method, tier
),
labels (method, label) AS (
    VALUES ('rag_slice_notes', 'RAG: query -> slice + notes'), ('codex', 'Codex'),
           ('agentrunbook_r', 'AgentRunbook-R'), ('agentrunbook_c', 'AgentRunbook-C')
)
SELECT 'run' AS kind, c.method_position, c.tier_position, c.method, c.label, c.family, c.tier,
       l.latency_s, l.accuracy, l.lafs, l.gain, coalesce(o.errors, 0) AS errors, coalesce(o.all_rows, 0) AS all_rows
FROM cells c
LEFT JOIN lafs l ON l.method = c.method AND l.tier = c.tier
LEFT JOIN totals o ON o.method = c.method AND o.tier = c.tier
UNION ALL
SELECT 'reference', row_number() OVER (PARTITION BY r.tier ORDER BY list_position(
           ['rag_slice_notes', 'agentrunbook_r', 'codex', 'agentrunbook_c'], r.method)) - 1,
       t.position, r.method, coalesce(labels.label, r.method), 'reference', r.tier,
       r.latency_s, r.accuracy, NULL, NULL, NULL, NULL
FROM reference_points r JOIN tiers t USING (tier) LEFT JOIN labels ON labels.method = r.method
UNION ALL
SELECT 'all', NULL, t.position, NULL, NULL, NULL, l.tier, NULL, NULL, l.lafs, l.gain, NULL, NULL
FROM lafs l JOIN tiers t USING (tier) WHERE l.method = 'all' AND l.latency_s IS NULL
ORDER BY kind, method_position, tier_position;
