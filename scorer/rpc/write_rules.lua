-- Writes operators' rules of machines for one query: once, not after its deadline, and only on what was read before.
--
-- KEYS  1 operator (hash)   2 operator-version (counter)   3 acted:<query> (string: its answer)
-- ARGV  1 deadline, epoch s by this server's clock   2 how long the answer is kept after it, s   3 the channel `changed`
--       4 the answer to the query
--       . three for each machine: its name, its entry as it was read, its entry to be; '' is none
-- Returns {'late'}, {'acted', the answer that was kept}, {'changed'} where another has changed one meanwhile, {'done'}.

local time = redis.call('TIME')
local left_s = tonumber(ARGV[1]) - tonumber(time[1]) - tonumber(time[2]) / 1e6
if left_s <= 0 then
  return {'late'}
end
local answer = redis.call('GET', KEYS[3])
if answer then
  return {'acted', answer}
end
for at = 5, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[at]) or '') ~= ARGV[at + 1] then
    return {'changed'}
  end
end
for at = 5, #ARGV, 3 do
  if ARGV[at + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[at])
  else
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  end
end
redis.call('SET', KEYS[3], ARGV[4], 'EX', math.ceil(left_s) + tonumber(ARGV[2]))
redis.call('INCRBY', KEYS[2], 1)
redis.call('PUBLISH', ARGV[3], '')
return {'done'}
