--[[ Expire what is due, when nobody else does.

ARGV[4] how many at most

Result: how many were due. ]]
return answer(sweep(tonumber(ARGV[4])))
