--[[ Make the ledger say what is true: instances are where an inventory found them, whatever the limits say.

ARGV[4...] four for each instance:
  "set" or "end"; id; machine; for "set" the record's JSON without braces and without the changing fields

Result: {"done" or "unknown", ...} in order. ]]
sweep(SWEEP_MAX)
local results = {}
for first = 4, #ARGV, 4 do
  local id, machine, tail = ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  local record = expire(find(id))
  local live = record and (record.state == 'reserved' or record.state == 'confirmed')
  if ARGV[first] == 'end' then
    if live then finish(record, 'released', now) end
    results[#results + 1] = record and 'done' or 'unknown'
  else
    local new = cjson.decode('{' .. tail .. '}')
    new.tail, new.id, new.machine, new.state, new.expires_at, new.ended_at = tail, id, machine, 'confirmed', 0, 0
    local stayed = live and record.machine == machine
    new.reserved_at = live and record.reserved_at or now
    new.started_at = stayed and record.started_at > 0 and record.started_at or now
    new.revived = record and not live
    if live then
      hold(record, -1)
      if record.cluster and record.cluster ~= '' and record.cluster ~= new.cluster then new.cluster_left = record.cluster end
    end
    hold(new, 1)
    changed(new, live and not stayed and record.machine or nil)
    results[#results + 1] = 'done'
  end
  commit()
end
return answer(results)
