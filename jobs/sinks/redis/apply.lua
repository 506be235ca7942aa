-- Compare-and-set of many rows: one is written only over an older one. All keys of a call lie in one
-- hash slot.
--
-- KEYS     one per row; two of a JSON string: the row, and where the position of a deleted one is
-- ARGV[1]  document (a hash with pos and doc), hash (a field a column) or json (a string)
-- ARGV[2]  seconds a deleted row's position is kept
-- ARGV[3]  seconds a row is kept, 0: for ever
-- ARGV[4..]  per row: position, body, index entries. An empty body is a delete; of a hash it is a
--          JSON array of names and values in turn. Entries are a JSON array, empty: not indexed
-- returns  per row: '' done, '!' refused, else a JSON array of entries that are to be settled
--
-- Positions are 16 upper-case hex digits of an LSN and 8 of an ordinal, or X and 14 of a large one.
-- They are compared as text: a Lua number is a double and would lose the low bits of an LSN. Digits
-- stand before letters in every collation, and X behind those that are digits.

local shape, tombstone, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local json = shape == 'json'
local pos = shape == 'hash' and '__pos' or 'pos'

local function held_position(row, gone)
  if not json then
    return redis.call('HGET', row, pos) or ''
  end
  -- {"__position":"<24 or 31 characters>", ...
  local held = string.match(redis.call('GETRANGE', row, 15, 45), '^%w*')
  return held ~= '' and held or redis.call('GET', gone) or ''
end

local function write_json(row, gone, position, body)
  if body == '' then
    redis.call('SET', gone, position, 'EX', tombstone)
    redis.call('DEL', row)
    return
  end
  if ttl > 0 then
    redis.call('SET', row, body, 'EX', ttl)
  else
    redis.call('SET', row, body)
  end
  redis.call('DEL', gone)
end

local function write_hash(row, held, position, body, index)
  local new = 0
  if body == '' then
    redis.call('DEL', row)
    redis.call('HSET', row, pos, position)
  elseif shape == 'hash' then
    redis.call('DEL', row)
    redis.call('HSET', row, pos, position, unpack(cjson.decode(body)))
  else
    new = redis.call('HSET', row, pos, position, 'doc', body)
  end
  if index ~= '' then
    redis.call('HSET', row, '__index', index, '__unsettled', '1')
  end
  if body == '' or ttl > 0 then
    redis.call('EXPIRE', row, body == '' and tombstone or ttl)
  elseif new > 0 and held ~= '' then
    -- doc was not there: the key was a tombstone and must no longer expire
    redis.call('PERSIST', row)
  end
end

-- The entries that the row has had since they were last settled, and those it gets.
local function together(row, entries)
  local all, seen = {}, {}
  for _, text in ipairs({entries, redis.call('HGET', row, '__index') or '[]'}) do
    for _, entry in ipairs(cjson.decode(text)) do
      if not seen[entry] then
        seen[entry] = true
        all[#all + 1] = entry
      end
    end
  end
  return #all == 0 and '[]' or cjson.encode(all)
end

local function write(row, gone, position, body, entries)
  local held = held_position(row, gone)
  if held > position then
    return ''
  end
  if held == position then
    if entries ~= '' and redis.call('HGET', row, '__unsettled') then
      return redis.call('HGET', row, '__index')
    end
    return ''
  end
  if json then
    write_json(row, gone, position, body)
    return ''
  end
  local index = entries ~= '' and together(row, entries) or ''
  write_hash(row, held, position, body, index)
  return index
end

local stride = json and 2 or 1
local answers = {}
for i = 1, #KEYS / stride do
  local key, at = stride * (i - 1) + 1, 3 * i + 1
  local ok, answer = pcall(
    write, KEYS[key], json and KEYS[key + 1], ARGV[at], ARGV[at + 1], ARGV[at + 2])
  if not ok then
    local text = type(answer) == 'table' and answer.err or tostring(answer)
    if not string.find(text, 'WRONGTYPE', 1, true) then
      error(text)
    end
    answer = '!'
  end
  answers[i] = answer
end
return answers
