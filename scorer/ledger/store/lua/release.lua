--[[ End an instance or give a reservation back. A moving instance leaves both machines. Where its start failed, that was on
the machine it moves to: it arrives there, and ends.

ARGV[5] id
ARGV[6] machine it must be on ("": any), or where its start failed, move to
ARGV[7] generation it must be ("": any)
ARGV[8] id of the query ("": none)
ARGV[9] its deadline, epoch seconds (0: none)
ARGV[10] "1": its start failed on its machine

Result: {"done", record}, {"repeat", record} (it had ended before), {"elsewhere", record}, {"generation", record} (it
is another one), {"gone"} (what the query ended before has been followed by others), {"late"} or {"unknown"}. ]]
local ID = ARGV[5]
local MACHINE = ARGV[6]
local GENERATION = ARGV[7]
local QUERY = ARGV[8]
local DEADLINE = ARGV[9]
local FAILED = (ARGV[10] == '1')
local function goes_to(record, machine)
  return record.moving and record.moving.to == machine
end
sweep(SWEEP_MAX)
local record, result, again = target(ID, GENERATION, QUERY, DEADLINE)
if result then
  -- nothing to do
elseif MACHINE ~= '' and record.machine ~= MACHINE and not (FAILED and goes_to(record, MACHINE)) then
  result = 'elsewhere'
elseif is_live(record) then
  if FAILED and record.moving then
    arrive(record, now)
    record = copy_of(record)
  end
  record.failed = FAILED or nil
  finish(record, 'released', now)
  result = 'done'
else
  result = 'repeat'
end
if not again and (result == 'done' or result == 'repeat') then remember(QUERY, DEADLINE, act_on(record)) end
commit()
return answer({result, record and shown(record) or nil})
