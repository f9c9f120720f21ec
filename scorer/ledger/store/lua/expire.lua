--[[ Expire due reservations and moves, when no other script runs.

ARGV[4] how many at most

Result: how many were due, reservations and moves. ]]
local MOST = ARGV[4]
return answer(sweep(tonumber(MOST)))
