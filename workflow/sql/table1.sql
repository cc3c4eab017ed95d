-- What Table 1 says of a data root, a row per tier: questions, those with an image, and the mean over questions of their
-- haystack's trajectories, states, text tokens, images and image tokens. `uncounted`: haystack entries without a count.
WITH entries AS (
    SELECT tier, question_id, unnest(trajectory_ids) AS trajectory_id FROM haystacks
),
sizes AS (
    SELECT tier, question_id, count(*) AS trajectories, count(*) - count(t.trajectory_id) AS uncounted,
           sum(states) AS states, sum(text_tokens) AS text_tokens, sum(images) AS images,
           sum(image_tokens) AS image_tokens
    FROM entries e LEFT JOIN tokens t USING (trajectory_id)
    GROUP BY tier, question_id
)
SELECT tier, count(*) AS questions, count(image) AS question_images,
       avg(trajectories) AS trajectories, avg(states) AS states, avg(text_tokens) AS text_tokens,
       avg(images) AS images, avg(image_tokens) AS image_tokens, CAST(sum(uncounted) AS BIGINT) AS uncounted
FROM sizes JOIN questions USING (question_id)
GROUP BY tier
ORDER BY avg(trajectories), tier;
