-- Every method against the best of its partners, by category and over the questions that both have a score for: mean
-- difference with its bootstrap interval, two-sided p-value, and the mark.
SELECT c.method, cells.label, c.tier, c.category, c.partner, c.questions,
       format('{:+.3f}', c.difference) AS difference,
       format('{:+.3f}', c.low) AS low,
       format('{:+.3f}', c.high) AS high,
       format('{:.4f}', c.p) AS p,
       CASE WHEN c.significant THEN '*' END AS mark
FROM comparisons c JOIN cells USING (method, tier)
ORDER BY method_position, tier_position,
         list_position(['overall', 'static', 'dynamic', 'workflow', 'gotchas'], c.category);
