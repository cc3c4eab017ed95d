-- What reached the reader. Coverage: share of the questions with evidence labels whose every hop has a state in the
-- context, before and after truncation. Gold support: of the phrase-match questions whose gold does not stand in the
-- question, the share whose gold phrases all occur in the context's text. Tokens: mean, in the reader's tokens, over rows without an error. Latency: mean
-- and 95th percentile of the query call, in seconds.
SELECT method, label, tier,
       count(evidence_covered) AS labelled,
       format('{:.3f}', avg(CAST(evidence_covered_before AS INTEGER))) AS covered_before,
       format('{:.3f}', avg(CAST(evidence_covered AS INTEGER))) AS covered,
       count(gold_supported) AS support_questions,
       format('{:.3f}', avg(CAST(gold_supported AS INTEGER))) AS gold_support,
       format('{:.0f}', avg(context_tokens_before) FILTER (error IS NULL)) AS tokens_before,
       format('{:.0f}', avg(context_tokens) FILTER (error IS NULL)) AS tokens,
       format('{:.3f}', avg(latency_s)) AS latency_s,
       format('{:.3f}', quantile_cont(latency_s, 0.95)) AS latency_p95_s,
       format('{:.1f}', avg(items_dropped) FILTER (error IS NULL)) AS items_dropped,
       format('{:.1f}', avg(images_left_out) FILTER (error IS NULL)) AS images_left_out
FROM outcomes
GROUP BY method_position, tier_position, method, label, tier
ORDER BY method_position, tier_position;
