--[[ Reserve instances, each on the first of its candidates that is as the scorer saw it and has room.

ARGV[4] change number that the whole ledger must still have ("-1": any); given when a rule looks beyond one machine
ARGV[5] "1": all or none
then five for each instance:
  id; digest of its request; lifetime in seconds; the record's JSON without braces and without the changing fields;
  JSON [[machine, version, limit of each amount..., limit of maxmemory, limit of masters], ...] in the ledger's units

Result of each instance, in order: {"placed", record, position of the candidate, reasons of those before it},
{"known", record} (the same request before), {"other", record} (another request under this id),
{"conflict", reasons} or {"none"} (it had no candidates). Another request under one of the ids is the caller's mistake:
nothing is reserved then, whatever ARGV[5] says. ]]
sweep(SWEEP_MAX)
local moved_on = tonumber(ARGV[4]) >= 0 and tonumber(ARGV[4]) ~= change
local results, placed, touched, failed, mistaken, planned = {}, {}, {}, false, false, {}
for first = 6, #ARGV, 5 do
  local id, digest, ttl_s, tail = ARGV[first], ARGV[first + 1], tonumber(ARGV[first + 2]), ARGV[first + 3]
  local known = planned[id] or expire(find(id))
  if known then
    if known.request == digest then
      results[#results + 1] = {'known', known}
    else
      results[#results + 1] = {'other', known}
      mistaken = true
    end
  else
    local record = cjson.decode('{' .. tail .. '}')
    record.tail, record.id = tail, id
    record.state, record.reserved_at, record.started_at, record.ended_at = 'reserved', now, 0, 0
    record.expires_at = now + ttl_s
    local reasons, at = {}, nil
    for position, candidate in ipairs(cjson.decode(ARGV[first + 4])) do
      record.machine = table.remove(candidate, 1)
      local reason = moved_on and 'changed' or misfit(record, candidate, touched)
      if not reason then
        at = position
        break
      end
      reasons[#reasons + 1] = reason
    end
    if at then
      hold(record, 1)
      touched[record.machine] = true
      placed[#placed + 1] = record
      planned[id] = record
      results[#results + 1] = {'placed', record, at, table.concat(reasons, ',')}
    else
      failed = true
      results[#results + 1] = #reasons > 0 and {'conflict', table.concat(reasons, ',')} or {'none'}
    end
  end
end
if mistaken or (ARGV[5] == '1' and failed) then
  rows, masters, ports, clusters = {}, {}, {}, {}
  for position, result in ipairs(results) do
    if result[1] == 'placed' then results[position] = {'conflict', 'all or none'} end
  end
else
  for _, record in ipairs(placed) do changed(record) end
end
commit()
for _, result in ipairs(results) do
  if type(result[2]) == 'table' then result[2] = result[2].value or encode(result[2]) end
end
return answer(results)
