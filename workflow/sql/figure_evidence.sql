-- Rows of the figure of evidence against accuracy: one per method and tier. Coverage: share of the `labelled` questions
-- whose every hop has a state in the context, before and after truncation. Accuracy: over the rows with a score; `errors` of `all_rows` have none.
SELECT c.method_position, c.tier_position, c.method, c.label, c.family, c.tier,
       count(o.evidence_covered) AS labelled,
       avg(CAST(o.evidence_covered_before AS INTEGER)) AS before,
       avg(CAST(o.evidence_covered AS INTEGER)) AS after,
       avg(o.correct) AS accuracy,
       count(o.error) AS errors,
       count(o.question_id) AS all_rows
FROM cells c
LEFT JOIN outcomes o ON o.method = c.method AND o.tier = c.tier
GROUP BY c.method_position, c.tier_position, c.method, c.label, c.family, c.tier
ORDER BY c.method_position, c.tier_position;
