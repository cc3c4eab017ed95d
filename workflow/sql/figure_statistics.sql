-- The data's distributions by tier and domain: haystack sizes and types of its questions, states per trajectory and
-- characters per tree of the trajectories that the tier's haystacks name.
WITH asked AS (
    SELECT tier, domain, question_type, trajectory_ids FROM haystacks JOIN questions USING (question_id)
),
tiers AS (
    SELECT tier, row_number() OVER (ORDER BY avg(len(trajectory_ids)), tier DESC) AS tier_position FROM asked GROUP BY tier
),
used AS (
    SELECT tier, domain, trajectory_id, state_count
    FROM (SELECT DISTINCT tier, unnest(trajectory_ids) AS trajectory_id FROM asked) JOIN trajectories USING (trajectory_id)
),
of_questions AS (
    SELECT tier, domain, list(len(trajectory_ids) ORDER BY len(trajectory_ids)) AS sizes,
           list(question_type ORDER BY question_type) AS types
    FROM asked GROUP BY tier, domain
),
of_trajectories AS (
    SELECT tier, domain, list(state_count ORDER BY state_count) AS states FROM used GROUP BY tier, domain
),
of_states AS (
    SELECT tier, domain, list(characters ORDER BY characters) AS characters
    FROM used JOIN (SELECT trajectory_id, length(tree) AS characters FROM states) USING (trajectory_id)
    GROUP BY tier, domain
)
SELECT tier_position, tier, domain, sizes, states, characters, types
FROM of_questions JOIN tiers USING (tier) JOIN of_trajectories USING (tier, domain) JOIN of_states USING (tier, domain)
ORDER BY tier_position, domain = 'enterprise', domain;
