-- Rows of the figure of latencies: one per method and tier. The query call's seconds, over queries without an error;
-- `errors` of `all_rows` have none.
SELECT c.method_position, c.tier_position, c.method, c.label, c.family, c.tier,
       count(o.latency_s) AS queries,
       avg(o.latency_s) AS mean,
       quantile_cont(o.latency_s, 0.05) AS p05,
       quantile_cont(o.latency_s, 0.25) AS p25,
       quantile_cont(o.latency_s, 0.50) AS p50,
       quantile_cont(o.latency_s, 0.75) AS p75,
       quantile_cont(o.latency_s, 0.95) AS p95,
       max(o.latency_s) AS max,
       list(o.latency_s ORDER BY o.question_id) FILTER (o.latency_s IS NOT NULL) AS latencies,
       count(o.question_id) - count(o.latency_s) AS errors,
       count(o.question_id) AS all_rows
FROM cells c
LEFT JOIN outcomes o ON o.method = c.method AND o.tier = c.tier
GROUP BY c.method_position, c.tier_position, c.method, c.label, c.family, c.tier
ORDER BY c.method_position, c.tier_position;
