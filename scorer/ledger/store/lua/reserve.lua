--[[ Reserve instances, each on the first of its candidates that is as the scorer saw it and has room.

ARGV[5] which ledger the scorer saw (`expect`; "-1": any)
ARGV[6] "1": all or none
ARGV[7] the instances, packed by MessagePack as lists; what several have in common is there once:
  ids; number of each one's kind; of its request; of its call; of its candidate, or a list of these
  kinds: [lifetime in seconds; the record's tail without id and request]
  requests: digest of each, as in the record
  calls: [id of the query ("": none); its deadline, epoch seconds (0: none)]
  what limits are on, and the candidates, as ledger.lua says

Result: {when they were reserved, when those of each kind expire, result of each instance}, the times as in the records.
An instance's, in order: position of its candidate (placed there; the last changes are these, in this order, and are not
among the records changed) or {position, reasons of the candidates before it}; {"known", record} (this query, or the same
request before, and it is live), {"other", record} (another request is live under this id), {"gone"} (what this query
reserved has ended: it never reserves anew), {"late"}, {"conflict", reasons} or {"none"} (it had no candidates). A reason
is "changed" or the number of the limit. Another request under one of the ids is the caller's mistake: nothing is reserved
then, whatever ARGV[6] says. ]]
local EXPECTED_CHANGE = ARGV[5]
local ALL_OR_NONE = (ARGV[6] == '1')
local BATCH = ARGV[7]
local TTL_S = 1
local REST = 2
local QUERY = 1
local DEADLINE = 2
sweep(SWEEP_MAX)
local ids, kind_of, request_of, call_of, offered, kinds, requests, calls, measures, candidates =
  unpack(cmsgpack.unpack(BATCH))
local planned = fetch(ids)
expect(EXPECTED_CHANGE)

-- What each is remembered by, and the generation that its query acted on.
local names, acted_on = {}, {}
for _, call in ipairs(calls) do call.late, call.done, call.names, call.numbers = is_late(call[DEADLINE]), {}, {}, {} end
for number, id in ipairs(ids) do
  local call = calls[call_of[number]]
  names[number] = SCRIPT .. ' ' .. id
  call.names[#call.names + 1], call.numbers[#call.numbers + 1] = names[number], number
end
for _, call in ipairs(calls) do
  local asked = call[QUERY] ~= '' and call.names or {}
  for position, generation in ipairs(read_many(QUERIES .. ':' .. call[QUERY], asked)) do
    acted_on[call.numbers[position]] = generation
  end
end

-- What the instances of a kind have in common.
local reserved_at, expire_at = string.format('%.6f', now), {}
for number, sent in ipairs(kinds) do
  local kind, expires_at = cjson.decode('{' .. sent[REST] .. '}'), now + sent[TTL_S]
  expire_at[number] = string.format('%.6f', expires_at)
  kind.expires_at, kind.rest = expires_at, ',' .. sent[REST] .. '}'
  kind.times = string.format(',"reserved_at":%s,"started_at":0.000000,"expires_at":%s,"ended_at":0.000000,\n"id":',
    reserved_at, expire_at[number])
  kinds[number] = kind
end
local requested = {}
for number, digest in ipairs(requests) do requested[number] = digest ~= '' and ',"request":' .. cjson.encode(digest) or '' end

-- The machines that are tried first: their rows and counts are read together.
local machines, fields, seen, alone = {}, {}, {}, {}
for number, offer in ipairs(offered) do
  if type(offer) == 'number' then
    alone[offer] = alone[offer] or {offer}
    offer = alone[offer]
    offered[number] = offer
  end
  local machine = offer[1] and candidates[offer[1]][1]
  if machine and not seen[machine] then
    seen[machine] = true
    machines[#machines + 1] = machine
    for _, what in ipairs(kinds[kind_of[number]].counts or {}) do fields[#fields + 1] = machine .. ' ' .. what end
  end
end
for position, packed in ipairs(read_many(MACHINES, machines)) do row(machines[position], packed) end
for position, stored in ipairs(read_many(COUNTS, fields)) do
  counts[fields[position]] = counts[fields[position]] or tonumber(stored or '0')
end

-- The numbers of the placed ones, in order, and the machine of each by number. An id that comes twice is known the second
-- time: planned has the number of the first.
local results, placed, machine_of, touched, failed, mistaken = {}, {}, {}, {}, false, false
for number, id in ipairs(ids) do
  local known, before, kind = planned[id], acted_on[number], kinds[kind_of[number]]
  local is_own = type(known) == 'number'
  if known and not is_own and not is_live(known) then known = nil end
  if calls[call_of[number]].late then
    results[number], failed = {'late'}, true
  elseif before and (not known or is_own or generation_of(known) ~= before) then
    results[number], failed = {'gone'}, true
  elseif known then
    local request = is_own and requests[request_of[known]] or known.request or ''
    local same = before or request == requests[request_of[number]]
    results[number], mistaken = {same and 'known' or 'other', known}, mistaken or not same
  else
    local machine, position, reasons = choose(measures, candidates, offered[number], touched)
    if machine then
      hold_on(machine, kind, 1)
      touched[machine], machine_of[number], planned[id] = true, machine, number
      placed[#placed + 1] = number
      results[number] = reasons and {position, reasons} or position
    else
      results[number], failed = reasons and {'conflict', reasons} or {'none'}, true
    end
  end
end

-- Write the placed instances. All of them are new, so this writes less than `commit`.
local order = {}
local function write_placed()
  local stored, waiting, log = {}, {}, {}
  for count, number in ipairs(placed) do
    change = change + 1
    local id, kind, machine, version = ids[number], kinds[kind_of[number]], machine_of[number], string.format('%.0f', change)
    local at, done = rows[machine], calls[call_of[number]].done
    at.touched, at.version, at.name = true, change, at.name or cjson.encode(machine)
    if kind.cluster and kind.cluster ~= '' then
      local members = cluster_row(kind.cluster)
      members.count, members.version = members.count + 1, change
    end
    local value = '{"version":' .. version .. ',"generation":' .. DRAWN .. ',"state":"reserved","machine":' .. at.name
      .. kind.times .. cjson.encode(id) .. requested[request_of[number]] .. kind.rest
    local last = 2 * count
    stored[last - 1], stored[last] = id, value
    waiting[last - 1], waiting[last] = expire_at[kind_of[number]], id
    log[#log + 1] = 'i'
    log[#log + 1] = value
    if #log == FIELDS_MAX or count == #placed then
      add_to_log(log)
      log = {}
    end
    done[#done + 1] = names[number]
    done[#done + 1] = DRAWN
    order[number] = #written + count
  end
  for _, kind in ipairs(kinds) do due = due and math.min(due, kind.expires_at) end
  call_many('HSET', INSTANCES, stored)
  call_many('ZADD', EXPIRY, waiting)
  write_sums()
  write_head()
end

if mistaken or (ALL_OR_NONE and failed) then
  for _, number in ipairs(placed) do results[number] = {'conflict', 'all or none'} end
elseif not DRY then
  if #placed > 0 then write_placed() end
  for number, result in ipairs(results) do
    if type(result) == 'table' and result[1] == 'known' and type(result[2]) == 'table' then
      local done = calls[call_of[number]].done
      done[#done + 1] = names[number]
      done[#done + 1] = generation_of(result[2])
    end
  end
  for _, call in ipairs(calls) do
    if #call.done > 0 then remember(call[QUERY], call[DEADLINE], call.done) end
  end
end

-- The record of an instance that is not written.
local function planned_record(number)
  local kind = kinds[kind_of[number]]
  return {state = 'reserved', machine = machine_of[number], reserved_at = now, expires_at = kind.expires_at,
    tail = '"id":' .. cjson.encode(ids[number]) .. requested[request_of[number]] .. string.sub(kind.rest, 1, -2)}
end
for _, result in ipairs(results) do
  local known = type(result) == 'table' and (result[1] == 'known' or result[1] == 'other') and result[2]
  if type(known) == 'number' then
    result[2] = order[known] or encode(planned_record(known))
  elseif known then
    result[2] = shown(known)
  end
end
return answer({reserved_at, expire_at, results})
