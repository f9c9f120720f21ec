--[[ Reserve instances, each on the first of its candidates that is as the scorer saw it and has room.

ARGV[4] change number that the whole ledger must still have ("-1": any); given when a rule looks beyond one machine
ARGV[5] "1": all or none
then seven for each instance:
  id; digests of its request, apart by a space (any of them is the same request, the record has the first); lifetime in
  seconds; the record's tail; its candidates; id of the query ("": none); its deadline, epoch
  seconds (0: none)

Result of each instance, in order: {"placed", record, position of the candidate, reasons of those before it},
{"known", record} (this query, or the same request before, and it is live), {"other", record} (another request is live
under this id), {"gone"} (what this query reserved has ended: it never reserves anew), {"late"}, {"conflict", reasons}
or {"none"} (it had no candidates). A reason is "changed" or the number of the limit. Another request under one of the
ids is the caller's mistake: nothing is reserved then, whatever ARGV[5] says. ]]
sweep(SWEEP_MAX)
local STEP = 7
local ids = {}
for first = 6, #ARGV, STEP do ids[#ids + 1] = ARGV[first] end
local planned = fetch(ids)
moved_on = tonumber(ARGV[4]) >= 0 and tonumber(ARGV[4]) ~= change
local results, placed, touched, failed, mistaken = {}, {}, {}, false, false
for first = 6, #ARGV, STEP do
  local id, digests, ttl_s, tail = ARGV[first], ARGV[first + 1], tonumber(ARGV[first + 2]), ARGV[first + 3]
  local query, deadline = ARGV[first + 5], ARGV[first + 6]
  local known = planned[id]
  if known and not is_live(known) then known = nil end
  local before = acted(query, id)
  if is_late(deadline) then
    results[#results + 1] = {'late'}
    failed = true
  elseif before and (not known or generation_of(known) ~= before) then
    results[#results + 1] = {'gone'}
    failed = true
  elseif known then
    if before or string.find(' ' .. digests .. ' ', ' ' .. (known.request or '') .. ' ', 1, true) then
      results[#results + 1] = {'known', known}
    else
      results[#results + 1] = {'other', known}
      mistaken = true
    end
  else
    local machine, at, reasons = choose(ARGV[first + 4], touched)
    if machine then
      local record = cjson.decode('{' .. tail .. '}')
      record.tail, record.id, record.machine, record.new = tail, id, machine, true
      record.state, record.reserved_at, record.started_at, record.ended_at = 'reserved', now, 0, 0
      record.expires_at = now + ttl_s
      hold(record, 1)
      touched[machine] = true
      placed[#placed + 1] = record
      planned[id] = record
      results[#results + 1] = {'placed', record, at, reasons}
    else
      failed = true
      results[#results + 1] = at > 0 and {'conflict', reasons} or {'none'}
    end
  end
end
if mistaken or (ARGV[5] == '1' and failed) then
  rows, counts, clusters = {}, {}, {}
  for position, result in ipairs(results) do
    if result[1] == 'placed' then results[position] = {'conflict', 'all or none'} end
  end
else
  for _, record in ipairs(placed) do changed(record) end
  for position, result in ipairs(results) do
    if result[1] == 'placed' or result[1] == 'known' then
      remember(ARGV[4 + STEP * position], ARGV[5 + STEP * position], result[2])
    end
  end
end
commit()
for _, result in ipairs(results) do
  if type(result[2]) == 'table' then result[2] = shown(result[2]) end
end
return answer(results)
