--[[ End an instance or give a reservation back.

ARGV[4] id
ARGV[5] machine it must be on ("": any)

Result: {"done", record}, {"repeat", record} (it had ended before), {"elsewhere", record} or {"unknown"}. ]]
sweep(SWEEP_MAX)
local record = expire(find(ARGV[4]))
local result
if not record then
  result = 'unknown'
elseif ARGV[5] ~= '' and record.machine ~= ARGV[5] then
  result = 'elsewhere'
elseif record.state == 'reserved' or record.state == 'confirmed' then
  finish(record, 'released', now)
  result = 'done'
else
  result = 'repeat'
end
commit()
return answer({result, record and (record.value or encode(record)) or nil})
