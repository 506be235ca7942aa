-- Rows below a position become tombstones of that position.
--
-- KEYS  hashes as apply.lua writes them;  ARGV[1] seconds to keep tombstones;  ARGV[2] the position

local removed = 0
for _, key in ipairs(KEYS) do
  local held = redis.call('HGET', key, 'pos')
  if held and held < ARGV[2] and redis.call('HDEL', key, 'doc') == 1 then
    redis.call('HSET', key, 'pos', ARGV[2])
    redis.call('EXPIRE', key, ARGV[1])
    removed = removed + 1
  end
end
return removed
