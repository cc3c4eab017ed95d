-- Rows of the figure of context tokens: one per method and tier, over rows without an error. Tokens are the reader's own,
-- images included, before (`_before`) and after truncation; `cut` counts the questions that lost an item. `budget` is the
-- reader's setting. `errors` of `all_rows` have an error.
WITH totals AS (
    SELECT method, tier, count(error) AS errors, count(*) AS all_rows FROM outcomes GROUP BY method, tier
)
SELECT c.method_position, c.tier_position, c.method, c.label, c.family, c.tier,
       count(o.context_tokens) AS questions,
       count(*) FILTER (o.items_dropped > 0) AS cut,
       avg(o.context_tokens) AS mean,
       quantile_cont(o.context_tokens, [0.05, 0.25, 0.5, 0.75, 0.95]) AS quantiles,
       list(o.context_tokens ORDER BY o.question_id) FILTER (o.context_tokens IS NOT NULL) AS tokens,
       avg(o.context_tokens_before) AS mean_before,
       quantile_cont(o.context_tokens_before, [0.05, 0.25, 0.5, 0.75, 0.95]) AS quantiles_before,
       list(o.context_tokens_before ORDER BY o.question_id)
           FILTER (o.context_tokens_before IS NOT NULL) AS tokens_before,
       (SELECT CAST(json_extract_string(settings, '$.context_tokens') AS BIGINT) FROM models WHERE role = 'reader')
           AS budget,
       coalesce(any_value(t.errors), 0) AS errors,
       coalesce(any_value(t.all_rows), 0) AS all_rows
FROM cells c
LEFT JOIN outcomes o ON o.method = c.method AND o.tier = c.tier AND o.error IS NULL
LEFT JOIN totals t ON t.method = c.method AND t.tier = c.tier
GROUP BY c.method_position, c.tier_position, c.method, c.label, c.family, c.tier
ORDER BY c.method_position, c.tier_position;
