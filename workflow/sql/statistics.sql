-- The data by tier and domain, a row each (domain `all`: both together). Column names are headings with what is counted
-- below them. Questions, trajectories and states are those of the tier's haystacks; a trajectory counts once however many
-- haystacks name it.
WITH asked AS (
    SELECT tier, domain, question_id, question_type, split_part(eval_function, '|', 1) AS scorer, image, trajectory_ids
    FROM haystacks JOIN questions USING (question_id)
),
cells AS (
    SELECT tier, domain, row_number() OVER (ORDER BY longest, tier DESC, domain = 'all', domain = 'enterprise', domain) AS position
    FROM (SELECT tier, avg(len(trajectory_ids)) AS longest FROM asked GROUP BY tier),
         (SELECT domain FROM asked UNION SELECT 'all')
),
used AS (
    SELECT tier, domain, trajectory_id, outcome, state_count
    FROM (SELECT DISTINCT tier, unnest(trajectory_ids) AS trajectory_id FROM asked) JOIN trajectories USING (trajectory_id)
),
pages AS MATERIALIZED (
    SELECT trajectory_id, length(tree) AS characters, screenshot FROM states
),
labels AS (
    SELECT question_id, count(DISTINCT hop) AS hops, count(*) AS states FROM evidence GROUP BY question_id
),
of_questions AS (
    SELECT c.tier, c.domain,
           count(*) AS "Questions: number",
           count(image) AS "Questions: with an image",
           count(l.question_id) AS "Questions: with evidence labels",
           coalesce(sum(hops), 0) AS "Questions: labelled hops",
           coalesce(sum(l.states), 0) AS "Questions: labelled states",
           count(*) FILTER (question_type = 'static-environment') AS "Question types: static-environment",
           count(*) FILTER (question_type = 'static-environment-abs') AS "Question types: static-environment-abs",
           count(*) FILTER (question_type = 'dynamic-environment') AS "Question types: dynamic-environment",
           count(*) FILTER (question_type = 'dynamic-environment-abs') AS "Question types: dynamic-environment-abs",
           count(*) FILTER (question_type = 'procedure') AS "Question types: procedure",
           count(*) FILTER (question_type = 'procedure-abs') AS "Question types: procedure-abs",
           count(*) FILTER (question_type = 'errors-gotchas') AS "Question types: errors-gotchas",
           count(*) FILTER (scorer = 'norm_phrase_set_match') AS "Scorers: norm_phrase_set_match",
           count(*) FILTER (scorer = 'norm_phrase_set_match_ordered') AS "Scorers: norm_phrase_set_match_ordered",
           count(*) FILTER (scorer = 'mc_choice_match') AS "Scorers: mc_choice_match",
           count(*) FILTER (scorer = 'mc_choice_set_match') AS "Scorers: mc_choice_set_match",
           count(*) FILTER (scorer = 'llm_abstention_checker') AS "Scorers: llm_abstention_checker",
           count(*) FILTER (scorer = 'llm_gotchas_checker') AS "Scorers: llm_gotchas_checker",
           count(DISTINCT trajectory_ids) AS "Trajectories per haystack: different haystacks",
           min(len(trajectory_ids)) AS "Trajectories per haystack: least",
           median(len(trajectory_ids)) AS "Trajectories per haystack: median",
           avg(len(trajectory_ids)) AS "Trajectories per haystack: mean",
           max(len(trajectory_ids)) AS "Trajectories per haystack: most"
    FROM cells c JOIN asked a ON a.tier = c.tier AND c.domain IN ('all', a.domain) LEFT JOIN labels l USING (question_id)
    GROUP BY c.tier, c.domain
),
of_trajectories AS (
    SELECT c.tier, c.domain,
           count(*) AS "Trajectories: number",
           count(*) FILTER (outcome = 'success') AS "Trajectories: success",
           count(*) FILTER (outcome = 'failure') AS "Trajectories: failure",
           sum(state_count) AS "States per trajectory: all states",
           min(state_count) AS "States per trajectory: least",
           median(state_count) AS "States per trajectory: median",
           avg(state_count) AS "States per trajectory: mean",
           max(state_count) AS "States per trajectory: most"
    FROM cells c JOIN used u ON u.tier = c.tier AND c.domain IN ('all', u.domain)
    GROUP BY c.tier, c.domain
),
of_states AS (
    SELECT c.tier, c.domain,
           sum(characters) AS "Characters per tree: all trees",
           quantile_cont(characters, 0.05) AS "Characters per tree: 5th percentile",
           quantile_cont(characters, 0.25) AS "Characters per tree: 25th percentile",
           quantile_cont(characters, 0.5) AS "Characters per tree: median",
           quantile_cont(characters, 0.75) AS "Characters per tree: 75th percentile",
           quantile_cont(characters, 0.95) AS "Characters per tree: 95th percentile",
           max(characters) AS "Characters per tree: most",
           count(screenshot) AS "Screenshots: states with one",
           count(*) - count(screenshot) AS "Screenshots: states without"
    FROM cells c JOIN used u ON u.tier = c.tier AND c.domain IN ('all', u.domain) JOIN pages USING (trajectory_id)
    GROUP BY c.tier, c.domain
)
SELECT tier, domain, q.* EXCLUDE (tier, domain), t.* EXCLUDE (tier, domain), s.* EXCLUDE (tier, domain)
FROM cells JOIN of_questions q USING (tier, domain) JOIN of_trajectories t USING (tier, domain)
     JOIN of_states s USING (tier, domain)
ORDER BY position;
