-- What coding agents did and cost, per method and tier: means over questions, and what all of them cost together (null
-- without a price). `failed`: questions without a usable output.
SELECT c.method, c.label, c.tier, r.agent, r.model,
       count(*) AS questions,
       count(r.fault) AS failed,
       format('{:.2f}', avg(r.attempts)) AS attempts,
       format('{:.1f}', avg(r.commands)) AS commands,
       format('{:.1f}', avg(r.requests)) AS requests,
       format('{:.0f}', avg(r.input_tokens)) AS input_tokens,
       format('{:.0f}', avg(r.cached_tokens)) AS cached_tokens,
       format('{:.0f}', avg(r.output_tokens)) AS output_tokens,
       format('{:.0f}', avg(r.reasoning_tokens)) AS reasoning_tokens,
       format('{:.2f}', avg(r.wall_s)) AS wall_s,
       format('{:.1f}', avg(r.states)) AS states,
       CAST(sum(r.spans_dropped) AS BIGINT) AS spans_dropped,
       format('{:.4f}', avg(r.cost)) AS cost,
       format('{:.2f}', sum(r.cost)) AS total_cost,
       any_value(r.currency) AS currency
FROM cells c
JOIN agent_runs r USING (method, tier)
GROUP BY c.method_position, c.tier_position, c.method, c.label, c.tier, r.agent, r.model
ORDER BY c.method_position, c.tier_position, r.agent, r.model;
