--[[ Turn a reservation into an instance.

ARGV[4] id
ARGV[5] machine it must be on ("": any)
ARGV[6] when it started, epoch seconds ("": now); never later than now

Result: {"done", record}, {"repeat", record}, {"ended", record}, {"elsewhere", record} or {"unknown"}. ]]
sweep(SWEEP_MAX)
local record = expire(find(ARGV[4]))
local result
if not record then
  result = 'unknown'
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
commit()
return answer({result, record and (record.value or encode(record)) or nil})
