-- Writes what became of the proposed moves, unless a newer planner has written since.
--
-- KEYS  1 waiting (list)   2 taken (list)   3 fence (string: number of the lease that wrote last)
--       4 roles (list: those of kind role that wait)
-- ARGV  1 number of the lease
--       2 how many messages are withdrawn, then those
--       . how many are returned, then two each: the one that was taken, the one that waits instead
--       . how many are proposed, then those
-- Returns {"done", returned, the fence that was no number and was replaced, or ""} or {"overtaken", fence}. A message that
-- was acknowledged meanwhile is not returned.

local number = tonumber(ARGV[1])
local stored = redis.pcall('GET', KEYS[3]) or '0'
local damaged = ''
if type(stored) ~= 'string' then
  damaged, stored = 'no string', '0'
elseif #stored > 15 or not string.match(stored, '^%d+$') then
  damaged, stored = string.sub(stored, 1, 100), '0'
end
local fence = tonumber(stored)
if fence > number then
  return {'overtaken', fence}
end
redis.call('SET', KEYS[3], number)
local function waiting(message)
  return string.find(message, '"kind":"role"', 1, true) and KEYS[4] or KEYS[1]
end
local at = 2
local function count()
  at = at + 1
  return tonumber(ARGV[at - 1])
end
for _ = 1, count() do
  redis.call('LREM', KEYS[1], 0, ARGV[at])
  redis.call('LREM', KEYS[2], 0, ARGV[at])
  redis.call('LREM', KEYS[4], 0, ARGV[at])
  at = at + 1
end
local returned = 0
for _ = 1, count() do
  if redis.call('LREM', KEYS[2], 1, ARGV[at]) == 1 then
    redis.call('RPUSH', waiting(ARGV[at + 1]), ARGV[at + 1])
    returned = returned + 1
  end
  at = at + 2
end
for _ = 1, count() do
  redis.call('LPUSH', waiting(ARGV[at]), ARGV[at])
  at = at + 1
end
return {'done', returned, damaged}
