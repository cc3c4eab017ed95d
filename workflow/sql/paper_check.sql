-- Our numbers beside the paper's (paper, Tables 2 and 6), a row per method, tier and column. `published` is the paper's
-- cells with their flags. `questions` are those with a score (of latency_s: queries without an error). Differences are
-- of the numbers as they are printed. Table 6 (direct answers without context) has none of ours.
WITH ours AS (
    SELECT method, tier, method_position, tier_position, pool.category AS column_name,
           format('{:.3f}', avg(correct)) AS value, count(correct) AS questions
    FROM outcomes
    JOIN (VALUES ('overall'), ('static'), ('dynamic'), ('workflow'), ('gotchas')) pool (category)
      ON pool.category IN ('overall', outcomes.category)
    GROUP BY method, tier, method_position, tier_position, pool.category
    UNION ALL
    SELECT method, tier, method_position, tier_position, 'latency_s', format('{:.1f}', mean_s), queries FROM latencies
)
SELECT 'Table ' || p."table" AS "table", p.method, p.label, nullif(p.tier, '') AS tier, p."column",
       o.value AS ours, p.value AS paper,
       CASE WHEN p."column" = 'latency_s' THEN format('{:+.1f}', CAST(o.value AS DECIMAL(12, 3)) - CAST(p.value AS DECIMAL(12, 3)))
            ELSE format('{:+.3f}', CAST(o.value AS DECIMAL(12, 3)) - CAST(p.value AS DECIMAL(12, 3))) END AS difference,
       o.questions, nullif(p.flag, '') AS flag
FROM published p
LEFT JOIN cells c ON p."table" = 2 AND c.method = p.method AND c.tier = p.tier
LEFT JOIN ours o ON p."table" = 2 AND o.method = p.method AND o.tier = p.tier AND o.column_name = p."column"
WHERE p."table" = 6 OR c.method IS NOT NULL
ORDER BY p."table", c.method_position, c.tier_position, p.position;
