--[[ Confirm a reservation, or the move of a moving instance.

ARGV[4] id
ARGV[5] machine it must be on ("": any)
ARGV[6] when it started, epoch seconds ("": now); never later than now
ARGV[7] generation it must be ("": any)
ARGV[8] id of the query ("": none)
ARGV[9] its deadline, epoch seconds (0: none)
ARGV[10] number of the move that is meant ("": any)

A move is confirmed when ARGV[5] is the machine it goes to, and nothing else confirms it.

Result: {"done", record}, {"repeat", record}, {"ended", record}, {"elsewhere", record}, {"generation", record} (it is
another one), {"moving", record} (another move there is under way), {"gone"} (what the query confirmed before has ended
and another generation came), {"late"} or {"unknown"}. ]]
sweep(SWEEP_MAX)
local record, result, again = target(ARGV[4], ARGV[7], ARGV[8], ARGV[9])
if result then
  -- nothing to do
elseif record.moving and record.moving.to == ARGV[5] and not again then
  if ARGV[10] == '' or ARGV[10] == string.format('%.0f', record.moving.number) then
    arrive(record, ARGV[6] ~= '' and math.min(tonumber(ARGV[6]), now) or now)
    result = 'done'
  else
    result = 'moving'
  end
elseif ARGV[5] ~= '' and record.machine ~= ARGV[5] then
  result = 'elsewhere'
elseif record.state == 'confirmed' then
  result = 'repeat'
elseif record.state ~= 'reserved' then
  result = 'ended'
else
  record.state, record.expires_at = 'confirmed', 0
  record.started_at = ARGV[6] ~= '' and math.min(tonumber(ARGV[6]), now) or now
  changed(record)
  result = 'done'
end
if not again and (result == 'done' or result == 'repeat') then remember(ARGV[8], ARGV[9], record) end
commit()
return answer({result, record and shown(record) or nil})
