--[[ Correct the ledger by an inventory: instances are put on the machines where it found them, whatever the limits. An
instance written this way is not moving.

ARGV[4...] four for each instance:
  "set" or "end"; id; machine; for "set" the record's tail

Result: {"done" or "unknown", ...} in order. ]]
sweep(SWEEP_MAX)
local results, ids = {}, {}
for first = 5, #ARGV, 4 do ids[#ids + 1] = ARGV[first] end
local found = fetch(ids)
for first = 4, #ARGV, 4 do
  local id, machine, tail = ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  local record = found[id]
  local live = record and is_live(record)
  record = record or ended_record(id)
  if ARGV[first] == 'end' then
    if live then finish(record, 'released', now) end
    results[#results + 1] = record and 'done' or 'unknown'
  else
    local new = cjson.decode('{' .. tail .. '}')
    new.tail, new.id, new.machine, new.state, new.expires_at, new.ended_at = tail, id, machine, 'confirmed', 0, 0
    local stayed = live and record.machine == machine
    new.reserved_at = live and record.reserved_at or now
    new.started_at = stayed and record.started_at > 0 and record.started_at or now
    if live and record.generation then
      new.generation = record.generation
      new.tail = tail .. ',"generation":' .. generation_of(record)
    else
      new.new, new.revived = not live, record and not live
    end
    if live then hold(record, -1) end
    hold(new, 1)
    changed(new, live and record or nil)
    found[id] = new
    results[#results + 1] = 'done'
  end
end
return answer(results)
