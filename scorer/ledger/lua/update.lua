--[[ Move, resize or change the role of a confirmed instance; two together when they swap roles.

ARGV[4] id of the query ("": none)
ARGV[5] its deadline, epoch seconds (0: none)
ARGV[6] generation the first of the instances must be ("": any)
ARGV[7...] four for each instance that changes:
  id; version its record must still have; the new record's tail ("": it stays as it is); its candidates, JSON: where it may
  go, its own machine included; the first with room is taken

Result: {"done", record, ...}, {"repeat", record} (this query changed it before, or it stays), {"stale"} (another version),
{"conflict", number of the instance, reasons}, {"ended", record}, {"reserved", record}, {"generation", record},
{"gone"}, {"late"} or {"unknown", id}. All of the instances change or none. ]]
sweep(SWEEP_MAX)
local STEP = 4
local first, result, again = target(ARGV[7], ARGV[6], ARGV[4], ARGV[5])
if result then return answer({result, first and shown(first) or nil}) end
if again then return answer({is_live(first) and 'repeat' or 'ended', shown(first)}) end
local ids, old = {}, {}
for position = 7, #ARGV, STEP do ids[#ids + 1] = ARGV[position] end
local found = fetch(ids)
for index, id in ipairs(ids) do
  local record = found[id] or ended_record(id)
  if not record then return answer({'unknown', id}) end
  if record.state == 'reserved' then return answer({'reserved', shown(record)}) end
  if record.state ~= 'confirmed' then return answer({'ended', shown(record)}) end
  if record.version ~= tonumber(ARGV[4 + STEP * index]) then return answer({'stale'}) end
  old[index] = record
end
if ARGV[9] == '' then
  remember(ARGV[4], ARGV[5], old[1])
  return answer({'repeat', shown(old[1])})
end
for _, record in ipairs(old) do hold(record, -1) end
local done = {}
for index, record in ipairs(old) do
  local tail = ARGV[5 + STEP * index]
  local new = cjson.decode('{' .. tail .. '}')
  new.tail, new.id, new.state, new.reserved_at, new.started_at = tail, record.id, 'confirmed', record.reserved_at, record.started_at
  new.expires_at, new.ended_at = 0, 0
  local reasons = {}
  local candidates = cjson.decode(ARGV[6 + STEP * index])
  for position = 2, #candidates do
    local reason = misfit(candidates[1], candidates[position], {})
    if not reason then
      new.machine = candidates[position][1]
      break
    end
    reasons[#reasons + 1] = reason
  end
  if not new.machine then return answer({'conflict', tostring(index), table.concat(reasons, ',')}) end
  if new.machine ~= record.machine then new.started_at = now end
  hold(new, 1)
  done[index] = new
end
for index, new in ipairs(done) do changed(new, old[index]) end
remember(ARGV[4], ARGV[5], done[1])
commit()
local shown_records = {'done'}
for _, new in ipairs(done) do shown_records[#shown_records + 1] = shown(new) end
return answer(shown_records)
