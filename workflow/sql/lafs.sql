-- LAFS of the tier's reference points with the method's own point, and what it adds to them; `all` is every method.
-- `errors` counts the rows without a score, which `accuracy_percent` is not over.
WITH failed AS (
    SELECT coalesce(method, 'all') AS method, tier, count(error) AS errors
    FROM scores GROUP BY GROUPING SETS ((method, tier), (tier))
)
SELECT l.method, coalesce(m.label, 'All methods together') AS label, l.tier,
       format('{:.3f}', l.latency_s) AS latency_s,
       format('{:.1f}', l.accuracy) AS accuracy_percent,
       f.errors,
       format('{:.2f}', l.lafs) AS lafs,
       format('{:.2f}', l.gain) AS gain
FROM lafs l LEFT JOIN methods m USING (method) JOIN tiers t USING (tier) LEFT JOIN failed f USING (method, tier)
ORDER BY t.position, m.position NULLS LAST;
