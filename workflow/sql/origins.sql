-- Who wrote what: entries of the memory's pools, queries of the methods, and choices among results (the worst of a
-- context). `fallback` and `repaired` count the model
-- calls whose reply could not be used as it came, `shortened` the entries that a model made from cut trees, `images_left_out` the screenshots that a text-only controller did not see.
SELECT kind, name, tier, origin, entries, shortened, images_left_out
FROM (
    SELECT 0 AS part, 0 AS method_position, 0 AS tier_position, 'pool' AS kind, pool AS name, NULL AS tier, origin,
           entries, shortened, images_left_out
    FROM pools
    UNION ALL
    SELECT 1, method_position, tier_position, 'queries', method, tier, query_origin, count(*), 0, 0
    FROM cells JOIN contexts USING (method, tier)
    WHERE query_origin IS NOT NULL
    GROUP BY method_position, tier_position, method, tier, query_origin
    UNION ALL
    SELECT 2, method_position, tier_position, 'rerank', method, tier, rerank_origin, count(*), 0, 0
    FROM cells JOIN contexts USING (method, tier)
    WHERE rerank_origin IS NOT NULL
    GROUP BY method_position, tier_position, method, tier, rerank_origin
)
ORDER BY part, method_position, tier_position, name, origin;
