-- Table 2: mean accuracy over all questions and by category (each pools a type with its -abs variant), and the mean
-- latency of the query call in seconds. Rows with an error kind have no score; they are counted in `errors`.
SELECT method, label, tier,
       format('{:.3f}', avg(correct)) AS overall,
       format('{:.3f}', avg(correct) FILTER (category = 'static')) AS static,
       format('{:.3f}', avg(correct) FILTER (category = 'dynamic')) AS dynamic,
       format('{:.3f}', avg(correct) FILTER (category = 'workflow')) AS workflow,
       format('{:.3f}', avg(correct) FILTER (category = 'gotchas')) AS gotchas,
       format('{:.3f}', avg(latency_s)) AS latency_s,
       count(*) AS questions,
       count(error) AS errors
FROM outcomes
GROUP BY method_position, tier_position, method, label, tier
ORDER BY method_position, tier_position;
