-- Rows of the figure of errors: one per method, tier and error kind; `kind` is null, and `failed` 0, where nothing
-- failed. `all_rows` counts every row of the method and tier.
WITH totals AS (
    SELECT method, tier, count(*) AS all_rows, count(error) AS errors FROM outcomes GROUP BY method, tier
),
kinds AS (
    SELECT method, tier, error AS kind, count(*) AS failed
    FROM outcomes WHERE error IS NOT NULL GROUP BY method, tier, error
)
SELECT method_position, tier_position, method, label, family, tier, kind, coalesce(failed, 0) AS failed,
       coalesce(errors, 0) AS errors, coalesce(all_rows, 0) AS all_rows
FROM cells
LEFT JOIN totals USING (method, tier)
LEFT JOIN kinds USING (method, tier)
ORDER BY method_position, tier_position, kind;
