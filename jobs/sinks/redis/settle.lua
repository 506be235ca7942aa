-- The secondary sets hold what a row's position says: what is left are its own entries.
--
-- KEYS     one per row, all of one hash slot
-- ARGV     per row: position, index entries
-- returns  how many rows are still at that position

local settled = 0
for i, row in ipairs(KEYS) do
  local position, entries = ARGV[2 * i - 1], ARGV[2 * i]
  local held = redis.call('HGET', row, 'pos') or redis.call('HGET', row, '__pos')
  if held == position then
    redis.call('HDEL', row, '__unsettled')
    if entries == '[]' then
      redis.call('HDEL', row, '__index')
    else
      redis.call('HSET', row, '__index', entries)
    end
    settled = settled + 1
  end
end
return settled
