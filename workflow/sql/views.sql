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
       CASE WHEN x.error IS NULL THEN x.latency_s END AS latency_s, x.waited_s,
       a.context_tokens, a.context_tokens_before, a.items_before, a.items_dropped, a.images_left_out,
       a.prompt_tokens, a.completion_tokens
FROM cells c
JOIN scores s USING (method, tier)
JOIN answers a USING (question_id, method, tier)
JOIN contexts x USING (question_id, method, tier);

-- Latency of the query call in seconds, over queries without an error.
CREATE VIEW latencies AS
SELECT method_position, tier_position, method, label, tier,
       count(latency_s) AS queries,
       avg(latency_s) AS mean_s,
       quantile_cont(latency_s, 0.5) AS p50_s,
       quantile_cont(latency_s, 0.95) AS p95_s,
       max(latency_s) AS max_s,
       sum(latency_s) AS total_s,
       sum(waited_s) AS waited_s
FROM outcomes
GROUP BY method_position, tier_position, method, label, tier;

-- Shares correct, answered wrong and unknown, by category and part: all questions, those without a flawed premise, and
-- those with one (scored by the abstention judge). Rows with an error are counted apart and are in no share.
CREATE VIEW shares AS
SELECT method_position, tier_position, method, label, tier, pool.category, part.part,
       count(correct) AS questions,
       count(error) AS errors,
       avg(correct) AS correct,
       avg(CAST(correct = 0 AND NOT unknown AS INTEGER)) FILTER (correct IS NOT NULL) AS wrong,
       avg(CAST(correct = 0 AND unknown AS INTEGER)) FILTER (correct IS NOT NULL) AS unknown
FROM outcomes
JOIN (VALUES ('overall'), ('static'), ('dynamic'), ('workflow'), ('gotchas')) pool (category)
  ON pool.category IN ('overall', outcomes.category)
JOIN (VALUES ('all', NULL), ('without_abstention', false), ('abstention', true)) part (part, abstention)
  ON part.abstention IS NULL OR part.abstention = (outcomes.scorer = 'llm_abstention_checker')
GROUP BY method_position, tier_position, method, label, tier, pool.category, part.part;
