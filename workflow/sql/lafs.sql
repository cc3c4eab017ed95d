-- LAFS of the tier's reference points with the method's own point, and what it adds to them; `all` is every method.
SELECT l.method, coalesce(m.label, 'All methods together') AS label, l.tier,
       format('{:.3f}', l.latency_s) AS latency_s,
       format('{:.1f}', l.accuracy) AS accuracy_percent,
       format('{:.2f}', l.lafs) AS lafs,
       format('{:.2f}', l.gain) AS gain
FROM lafs l LEFT JOIN methods m USING (method) JOIN tiers t USING (tier)
ORDER BY t.position, m.position NULLS LAST;
