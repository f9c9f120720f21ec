--[[ Correct the ledger by an inventory: instances are put on the machines where it found them, whatever the limits. An
instance written this way is not moving.

ARGV[5...] four for each instance:
  "set" or "end"; id; with "set" the machine; with "set" the record's tail

Result: {"done" or "unknown", ...} in order. ]]
local FIRST = 5
local EACH = 4
local ID = 1
local MACHINE = 2
local TAIL = 3
sweep(SWEEP_MAX)
local results, ids = {}, {}
for at = FIRST, #ARGV, EACH do ids[#ids + 1] = ARGV[at + ID] end
local found = fetch(ids)
for at = FIRST, #ARGV, EACH do
  local id = ARGV[at + ID]
  local record = found[id]
  local live = record and is_live(record)
  record = record or ended_record(id)
  if ARGV[at] == 'end' then
    if live then finish(record, 'released', now) end
    results[#results + 1] = record and 'done' or 'unknown'
  else
    local machine, tail = ARGV[at + MACHINE], ARGV[at + TAIL]
    local new = cjson.decode('{' .. tail .. '}')
    new.tail, new.id, new.machine, new.state, new.expires_at, new.ended_at = tail, id, machine, 'confirmed', 0, 0
    local stayed = live and record.machine == machine
    new.reserved_at = live and record.reserved_at or now
    new.started_at = stayed and record.started_at > 0 and record.started_at or now
    if live then
      new.generation = record.generation
      hold(record, -1)
    else
      new.new, new.revived = true, record
    end
    hold(new, 1)
    changed(new, live and record or nil)
    found[id] = new
    results[#results + 1] = 'done'
  end
end
return answer(results)
