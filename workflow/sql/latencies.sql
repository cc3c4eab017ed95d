-- Latency of the query call in seconds, over queries without an error, and what was waited for outside it.
SELECT method, label, tier, queries,
       format('{:.3f}', mean_s) AS mean_s,
       format('{:.3f}', p50_s) AS p50_s,
       format('{:.3f}', p95_s) AS p95_s,
       format('{:.3f}', max_s) AS max_s,
       format('{:.1f}', total_s) AS total_s,
       format('{:.1f}', waited_s) AS waited_s
FROM latencies
ORDER BY method_position, tier_position;
