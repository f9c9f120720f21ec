--[[ Confirm a reservation, or the move of a moving instance.

ARGV[5] id
ARGV[6] machine it must be on ("": any)
ARGV[7] when it started, epoch seconds ("": now); never later than now
ARGV[8] generation it must be ("": any)
ARGV[9] id of the query ("": none)
ARGV[10] its deadline, epoch seconds (0: none)
ARGV[11] number of the move that is meant ("": any)

A move is confirmed when ARGV[6] is the machine it goes to, and nothing else confirms it.

Result: {"done", record}, {"repeat", record}, {"ended", record}, {"elsewhere", record}, {"generation", record} (it is
another one), {"moving", record} (another move there is under way), {"gone"} (what the query confirmed before has ended
and another generation came), {"late"} or {"unknown"}. ]]
local ID = ARGV[5]
local MACHINE = ARGV[6]
local STARTED_AT = ARGV[7]
local GENERATION = ARGV[8]
local QUERY = ARGV[9]
local DEADLINE = ARGV[10]
local MOVE = ARGV[11]
sweep(SWEEP_MAX)
local record, result, again = target(ID, GENERATION, QUERY, DEADLINE)
if result then
  -- nothing to do
elseif record.moving and record.moving.to == MACHINE and not again then
  if MOVE == '' or MOVE == string.format('%.0f', record.moving.number) then
    arrive(record, STARTED_AT ~= '' and math.min(tonumber(STARTED_AT), now) or now)
    result = 'done'
  else
    result = 'moving'
  end
elseif MACHINE ~= '' and record.machine ~= MACHINE then
  result = 'elsewhere'
elseif record.state == 'confirmed' then
  result = 'repeat'
elseif record.state ~= 'reserved' then
  result = 'ended'
else
  record.state, record.expires_at = 'confirmed', 0
  record.started_at = STARTED_AT ~= '' and math.min(tonumber(STARTED_AT), now) or now
  changed(record)
  result = 'done'
end
if not again and (result == 'done' or result == 'repeat') then remember(QUERY, DEADLINE, act_on(record)) end
commit()
return answer({result, record and shown(record) or nil})
