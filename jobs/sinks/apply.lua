-- Compare-and-set of many keys: a row is written only over an older one.
--
-- KEYS     one per row: a hash with the fields pos and doc
-- ARGV[1]  seconds a tombstone is kept
-- ARGV[2i], ARGV[2i+1]  position and document of KEYS[i]; an empty document is a delete
-- returns  how many rows were written
--
-- Positions are 24 upper-case hex digits and compared as text: a Lua number is a double and
-- would lose the low bits of an LSN. Digits stand before letters in every collation.

local written = 0
for i, key in ipairs(KEYS) do
  local position, document = ARGV[2 * i], ARGV[2 * i + 1]
  local held = redis.call('HGET', key, 'pos')
  if not held or held < position then
    if document == '' then
      redis.call('HSET', key, 'pos', position)
      redis.call('HDEL', key, 'doc')
      redis.call('EXPIRE', key, ARGV[1])
    elseif redis.call('HSET', key, 'pos', position, 'doc', document) > 0 and held then
      -- doc was not there: the key was a tombstone and must no longer expire
      redis.call('PERSIST', key)
    end
    written = written + 1
  end
end
return written
