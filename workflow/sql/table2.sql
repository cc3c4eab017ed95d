-- Table 2: mean accuracy over all questions and by category (each pools a type with its -abs variant), and the mean
-- latency of the query call in seconds. Rows with an error kind have no score; they are counted in `errors`, and
-- by kind in `error_kinds`.
-- `significant` names the columns in which the method beats the best of its partners (paired bootstrap, two-sided);
-- low and high are the bootstrap interval of `overall`.
WITH marks AS (
    SELECT method, tier, string_agg(category, ';' ORDER BY list_position(
               ['overall', 'static', 'dynamic', 'workflow', 'gotchas'], category
           )) AS significant
    FROM comparisons WHERE significant GROUP BY method, tier
),
failed AS (
    SELECT method, tier, string_agg(rows || ' ' || error, ', ' ORDER BY error) AS kinds
    FROM (SELECT method, tier, error, count(*) AS rows FROM scores WHERE error IS NOT NULL GROUP BY ALL)
    GROUP BY method, tier
)
SELECT o.method, o.label, o.tier,
       format('{:.3f}', avg(correct)) AS overall,
       format('{:.3f}', avg(correct) FILTER (o.category = 'static')) AS static,
       format('{:.3f}', avg(correct) FILTER (o.category = 'dynamic')) AS dynamic,
       format('{:.3f}', avg(correct) FILTER (o.category = 'workflow')) AS workflow,
       format('{:.3f}', avg(correct) FILTER (o.category = 'gotchas')) AS gotchas,
       format('{:.3f}', avg(latency_s)) AS latency_s,
       any_value(m.significant) AS significant,
       format('{:.3f}', any_value(i.low)) AS overall_low,
       format('{:.3f}', any_value(i.high)) AS overall_high,
       count(*) AS questions,
       count(error) AS errors,
       any_value(e.kinds) AS error_kinds
FROM outcomes o
LEFT JOIN marks m USING (method, tier)
LEFT JOIN failed e USING (method, tier)
LEFT JOIN intervals i ON i.method = o.method AND i.tier = o.tier AND i.category = 'overall'
GROUP BY method_position, tier_position, o.method, o.label, o.tier
ORDER BY method_position, tier_position;
