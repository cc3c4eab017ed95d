-- Views that the tables share.

-- Methods and tiers in table order.
CREATE VIEW cells AS
SELECT m.position AS method_position, m.method, m.label, m.family, t.position AS tier_position, t.tier
FROM methods m CROSS JOIN tiers t;

-- One row per question, method and tier. `correct` is null exactly where a row has an error kind.
CREATE VIEW outcomes AS
SELECT c.method_position, c.tier_position, c.label, c.family,
       s.question_id, s.method, s.tier, s.domain, s.question_type, s.category, s.scorer,
       CAST(s.correct AS INTEGER) AS correct, s.unknown, s.error,
       s.evidence_covered, s.evidence_covered_before, s.gold_supported,
       CASE WHEN x.error IS NULL THEN x.latency_s END AS latency_s, a.context_tokens, a.context_tokens_before, a.items_before, a.items_dropped, a.images_left_out,
       a.prompt_tokens, a.completion_tokens
FROM cells c
JOIN scores s USING (method, tier)
JOIN answers a USING (question_id, method, tier)
JOIN contexts x USING (question_id, method, tier);
