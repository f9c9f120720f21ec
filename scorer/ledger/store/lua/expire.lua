--[[ Expire due reservations and moves, when no other script runs.

ARGV[5] how many at most

Result: how many were due, reservations and moves. ]]
local MOST = ARGV[5]
return answer(sweep(tonumber(MOST)))
