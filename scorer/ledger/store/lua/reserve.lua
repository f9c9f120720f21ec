--[[ Reserve instances, each on the first of its candidates that is as the scorer saw it and has room.

ARGV[4] change number that the whole ledger must still have ("-1": any); given when a rule looks beyond one machine
ARGV[5] "1": all or none
then seven for each instance:
  id; digest of its request, as in the record; lifetime in seconds; the record's tail; its candidates; id of the query
  ("": none); its deadline, epoch seconds (0: none)

Result of each instance, in order: {"placed", record, position of the candidate, reasons of those before it},
{"known", record} (this query, or the same request before, and it is live), {"other", record} (another request is live
under this id), {"gone"} (what this query reserved has ended: it never reserves anew), {"late"}, {"conflict", reasons}
or {"none"} (it had no candidates). A reason is "changed" or the number of the limit. Another request under one of the
ids is the caller's mistake: nothing is reserved then, whatever ARGV[5] says. ]]
local EXPECTED_CHANGE = ARGV[4]
local ALL_OR_NONE = ARGV[5]
local FIRST = 6
local EACH = 7
local DIGEST = 1
local TTL_S = 2
local TAIL = 3
local CANDIDATES = 4
local QUERY = 5
local DEADLINE = 6
sweep(SWEEP_MAX)
local ids = {}
for at = FIRST, #ARGV, EACH do ids[#ids + 1] = ARGV[at] end
local planned = fetch(ids)
moved_on = tonumber(EXPECTED_CHANGE) >= 0 and tonumber(EXPECTED_CHANGE) ~= change
local results, placed, touched, failed, mistaken = {}, {}, {}, false, false
for first = FIRST, #ARGV, EACH do
  local id, query = ARGV[first], ARGV[first + QUERY]
  local known = planned[id]
  if known and not is_live(known) then known = nil end
  local before = acted(query, id)
  if is_late(ARGV[first + DEADLINE]) then
    results[#results + 1] = {'late'}
    failed = true
  elseif before and (not known or generation_of(known) ~= before) then
    results[#results + 1] = {'gone'}
    failed = true
  elseif known then
    if before or (known.request or '') == ARGV[first + DIGEST] then
      results[#results + 1] = {'known', known}
    else
      results[#results + 1] = {'other', known}
      mistaken = true
    end
  else
    local machine, at, reasons = choose(ARGV[first + CANDIDATES], touched)
    if machine then
      local tail = ARGV[first + TAIL]
      local record = cjson.decode('{' .. tail .. '}')
      record.tail, record.id, record.machine, record.new = tail, id, machine, true
      record.state, record.reserved_at, record.started_at, record.ended_at = 'reserved', now, 0, 0
      record.expires_at = now + tonumber(ARGV[first + TTL_S])
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
if mistaken or (ALL_OR_NONE == '1' and failed) then
  rows, counts, clusters = {}, {}, {}
  for position, result in ipairs(results) do
    if result[1] == 'placed' then results[position] = {'conflict', 'all or none'} end
  end
else
  for _, record in ipairs(placed) do changed(record) end
  for position, result in ipairs(results) do
    if result[1] == 'placed' or result[1] == 'known' then
      local first = FIRST + EACH * (position - 1)
      remember(ARGV[first + QUERY], ARGV[first + DEADLINE], result[2])
    end
  end
end
commit()
for _, result in ipairs(results) do
  if type(result[2]) == 'table' then result[2] = shown(result[2]) end
end
return answer(results)
