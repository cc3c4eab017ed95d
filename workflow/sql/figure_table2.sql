-- Rows of the figure of table 2: one per method, tier and panel. Panels: accuracy overall and by category with the
-- bootstrap interval of `overall` and the mark of a significant difference, and what reached the reader (evidence covered
-- after truncation, gold support). `rows` and `errors` count all rows of the method and tier, and those without a score.
WITH totals AS (
    SELECT method, tier, count(*) AS all_rows, count(error) AS errors,
           avg(CAST(evidence_covered AS INTEGER)) AS covered, avg(CAST(gold_supported AS INTEGER)) AS gold_support
    FROM outcomes GROUP BY method, tier
),
panels AS (
    SELECT s.method, s.tier, s.category AS panel, s.correct AS value, i.low, i.high,
           coalesce(c.significant, false) AS significant
    FROM shares s
    LEFT JOIN intervals i ON i.method = s.method AND i.tier = s.tier AND i.category = s.category
                             AND s.category = 'overall'
    LEFT JOIN comparisons c ON c.method = s.method AND c.tier = s.tier AND c.category = s.category
    WHERE s.part = 'all'
    UNION ALL
    SELECT method, tier, 'covered', covered, NULL, NULL, false FROM totals
    UNION ALL
    SELECT method, tier, 'gold_support', gold_support, NULL, NULL, false FROM totals
),
settings AS (SELECT max(value) FILTER (name = 'statistics') AS statistics FROM run)
SELECT method_position, tier_position, method, label, family, tier, panel, value, low, high, significant, all_rows, errors,
       CAST(json_extract_string(statistics, '$.level') AS DOUBLE) AS level,
       CAST(json_extract_string(statistics, '$.alpha') AS DOUBLE) AS alpha
FROM cells
JOIN totals USING (method, tier)
JOIN panels USING (method, tier)
CROSS JOIN settings
ORDER BY method_position, tier_position, panel;
