--[[ Move, resize or change the role of a confirmed instance; two together when they swap roles.

ARGV[4] number of the instances that change; then four for each:
  id; version its record must still have; the new record's JSON without braces and without the changing fields;
  JSON [[machine, version, limit of each amount..., limit of maxmemory, limit of masters], ...] in the ledger's units:
  where it may go, its own machine included; the first with room is taken

Result: {"done", record, ...}, {"stale"} (another version), {"conflict", reasons}, {"ended", record},
{"reserved", record} or {"unknown"}. All of the instances change or none. ]]
sweep(SWEEP_MAX)
local old, result = {}, nil
for index = 1, tonumber(ARGV[4]) do
  local id, version = ARGV[1 + 4 * index], tonumber(ARGV[2 + 4 * index])
  local record = expire(find(id))
  if not record then result = {'unknown', id}
  elseif record.state == 'reserved' then result = {'reserved', encode(record)}
  elseif record.state ~= 'confirmed' then result = {'ended', encode(record)}
  elseif record.version ~= version then result = {'stale'} end
  if result then return answer(result) end
  old[index] = record
end
commit()
for _, record in ipairs(old) do hold(record, -1) end
local done = {}
for index, record in ipairs(old) do
  local tail = ARGV[3 + 4 * index]
  local new = cjson.decode('{' .. tail .. '}')
  new.tail, new.id, new.state, new.reserved_at, new.started_at = tail, record.id, 'confirmed', record.reserved_at, record.started_at
  new.expires_at, new.ended_at = 0, 0
  local reasons, fits = {}, false
  for _, candidate in ipairs(cjson.decode(ARGV[4 + 4 * index])) do
    new.machine = table.remove(candidate, 1)
    local reason = misfit(new, candidate, {})
    if not reason then
      fits = true
      break
    end
    reasons[#reasons + 1] = reason
  end
  if not fits then return answer({'conflict', table.concat(reasons, ',')}) end
  if new.machine ~= record.machine then new.started_at = now end
  hold(new, 1)
  done[index] = new
end
for index, new in ipairs(done) do
  local record = old[index]
  if record.cluster and record.cluster ~= '' and record.cluster ~= new.cluster then new.cluster_left = record.cluster end
  changed(new, record.machine ~= new.machine and record.machine or nil)
end
commit()
result = {'done'}
for _, new in ipairs(done) do result[#result + 1] = encode(new) end
return answer(result)
