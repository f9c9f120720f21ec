-- Moves a query from the list of the scorer that has taken it to that of the planners, while a planner runs.
--
-- KEYS  1 planners (sorted set: name, last heartbeat)   2 the planners' list   3 the scorer's list of taken queries
-- ARGV  1 after how many seconds without a heartbeat a planner counts as dead   2 the query
-- Returns 1; 0 where no planner runs: nothing was moved.

local time = redis.call('TIME')
local since = tonumber(time[1]) + tonumber(time[2]) / 1e6 - tonumber(ARGV[1])
if redis.call('ZCOUNT', KEYS[1], since, '+inf') == 0 then
  return 0
end
redis.call('LPUSH', KEYS[2], ARGV[2])
redis.call('LREM', KEYS[3], 1, ARGV[2])
return 1
