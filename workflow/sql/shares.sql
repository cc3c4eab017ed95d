-- Shares answered correctly, wrongly and with UNKNOWN, by category and part, over the questions with a score.
SELECT method, label, tier, category, part, questions, errors,
       format('{:.3f}', correct) AS correct,
       format('{:.3f}', wrong) AS wrong,
       format('{:.3f}', unknown) AS unknown
FROM shares
ORDER BY method_position, tier_position,
         list_position(['overall', 'static', 'dynamic', 'workflow', 'gotchas'], category),
         list_position(['all', 'without_abstention', 'abstention'], part);
