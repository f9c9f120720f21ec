--[[ End an instance or give a reservation back. A moving instance leaves both machines.

ARGV[4] id
ARGV[5] machine it must be on ("": any)
ARGV[6] generation it must be ("": any)
ARGV[7] id of the query ("": none)
ARGV[8] its deadline, epoch seconds (0: none)

Result: {"done", record}, {"repeat", record} (it had ended before), {"elsewhere", record}, {"generation", record} (it
is another one), {"gone"} (what the query ended before has been followed by others), {"late"} or {"unknown"}. ]]
sweep(SWEEP_MAX)
local record, result, again = target(ARGV[4], ARGV[6], ARGV[7], ARGV[8])
if result then
  -- nothing to do
elseif ARGV[5] ~= '' and record.machine ~= ARGV[5] then
  result = 'elsewhere'
elseif is_live(record) then
  finish(record, 'released', now)
  result = 'done'
else
  result = 'repeat'
end
if not again and (result == 'done' or result == 'repeat') then remember(ARGV[7], ARGV[8], record) end
commit()
return answer({result, record and shown(record) or nil})
