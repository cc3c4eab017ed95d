-- How far judges agree on the same answers, by scorer and in all, and one judge with itself over its repeats. Tables:
-- `judges` (position, judge, repeats) and `verdicts` (one row per judge and answer: the label of the majority of its
-- repeats, null without one, and the labels of all repeats that gave one).
WITH
said AS (
  SELECT j.position, v.judge, j.repeats, v.question_id, v.method, v.tier, v.scorer, v.label, v.labels
  FROM verdicts v JOIN judges j USING (judge)
),
pools AS (SELECT DISTINCT scorer AS pool, scorer, false AS whole FROM said
          UNION ALL SELECT 'all', scorer, true FROM (SELECT DISTINCT scorer FROM said)),
-- Per judge and pool: answers with two labels or more, how many of them flipped, and answers without a verdict.
alone AS (
  SELECT judge, pool,
         count(*) FILTER (len(labels) > 1) AS repeated,
         count(*) FILTER (len(list_distinct(labels)) > 1) AS flipped,
         count(*) FILTER (label IS NULL) AS errors
  FROM said JOIN pools USING (scorer)
  GROUP BY judge, pool
),
-- One row per judge pair and answer, and per pair of repeats of one judge that gave all its labels.
pairs AS (
  SELECT 'judges' AS compared, a.position AS first, b.position AS second, a.scorer,
         (a.question_id, a.method, a.tier) AS answer, a.label AS x, b.label AS y
  FROM said a JOIN said b USING (question_id, method, tier, scorer)
  WHERE a.position < b.position AND a.label IS NOT NULL AND b.label IS NOT NULL
  UNION ALL
  SELECT 'repeats', position, position, scorer, (question_id, method, tier), labels[i], labels[j]
  FROM said, range(1, repeats + 1) one (i), range(1, repeats + 1) other (j)
  WHERE repeats > 1 AND len(labels) = repeats AND i < j
),
counted AS (
  SELECT compared, first, second, pool, count(DISTINCT answer) AS answers, count(*) AS n,
         count(*) FILTER (x = 1 AND y = 1) AS both_1, count(*) FILTER (x = 1 AND y = 0) AS judge_only,
         count(*) FILTER (x = 0 AND y = 1) AS other_only, count(*) FILTER (x = 0 AND y = 0) AS both_0
  FROM pairs JOIN pools USING (scorer)
  GROUP BY compared, first, second, pool
),
-- Agreement by chance: of two judges each with its own shares (Cohen), of repeats with one share for all (Fleiss).
chance AS (
  SELECT *, (both_1 + both_0) / n AS agreement,
         CASE compared
           WHEN 'judges' THEN ((both_1 + judge_only) * (both_1 + other_only)
                               + (both_0 + other_only) * (both_0 + judge_only)) / (n * n)
           ELSE (power(2 * both_1 + judge_only + other_only, 2) + power(2 * both_0 + judge_only + other_only, 2))
                / (4 * n * n)
         END AS expected
  FROM counted
),
-- Every row that the table has, also where two judges have no answer in common.
wanted AS (
  SELECT CASE WHEN a.position = b.position THEN 'repeats' ELSE 'judges' END AS compared,
         a.position AS first, b.position AS second, a.judge, b.judge AS other, pool, whole
  FROM judges a JOIN judges b ON a.position < b.position OR (a.position = b.position AND a.repeats > 1)
  CROSS JOIN (SELECT DISTINCT pool, whole FROM pools)
)
SELECT compared, w.judge, w.other, w.pool AS scorer,
       coalesce(c.answers, 0) AS answers,
       format('{:.3f}', c.agreement) AS agreement,
       -- Where both give everything one label, chance alone agrees, and kappa is not defined.
       CASE WHEN c.expected < 1 THEN format('{:.3f}', (c.agreement - c.expected) / (1 - c.expected)) END AS kappa,
       coalesce(c.both_1, 0) AS both_1, coalesce(c.judge_only, 0) AS judge_only_1,
       coalesce(c.other_only, 0) AS other_only_1, coalesce(c.both_0, 0) AS both_0,
       format('{:.3f}', one.flipped / nullif(one.repeated, 0)) AS judge_flips,
       format('{:.3f}', two.flipped / nullif(two.repeated, 0)) AS other_flips,
       coalesce(one.errors, 0) AS judge_errors, coalesce(two.errors, 0) AS other_errors
FROM wanted w
LEFT JOIN chance c USING (compared, first, second, pool)
LEFT JOIN alone one ON one.judge = w.judge AND one.pool = w.pool
LEFT JOIN alone two ON two.judge = w.other AND two.pool = w.pool
ORDER BY compared, first, second, whole, scorer;
