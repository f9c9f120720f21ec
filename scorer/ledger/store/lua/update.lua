--[[ Move, resize or change the role of a confirmed instance; two together when they swap roles. Begin a move, or end it.

ARGV[5] id of the query ("": none)
ARGV[6] its deadline, epoch seconds (0: none)
ARGV[7] generation the first of the instances must be ("": any)
ARGV[8] which ledger the scorer saw (`expect`; "-1": any)
ARGV[9] "change", "begin" (a move) or "cancel" (the move that is under way)
ARGV[10] with "begin": seconds that the move may take
ARGV[11...] five for each instance that changes, one with "begin" and "cancel":
  id; version its record must still have; with "change" the new record's tail ("": it stays as it is); the tail that it
  has from the confirmation of its move on ("": the move changes none); its candidates: where it may go, its own machine
  included; the first with room is taken

A move that begins leaves the instance as it is, which holds the candidate, too, until the move is confirmed, cancelled or
its time is over. A moving instance that changes otherwise stays on both machines: each of its candidates must have room.

Result: {"done", record, ...}, {"repeat", record} (this query changed it before, or it stays), {"stale"} (another version),
{"conflict", number of the instance, reasons, number of the first candidate with one (none: 1)}, {"ended", record},
{"reserved", record}, {"moving", record} (a move is under way), {"generation", record}, {"gone"}, {"late"} or
{"unknown", id}. All of the instances change or none. ]]
local QUERY = ARGV[5]
local DEADLINE = ARGV[6]
local GENERATION = ARGV[7]
local EXPECTED_CHANGE = ARGV[8]
local WHAT = ARGV[9]
local LASTS_S = ARGV[10]
local FIRST = 11
local EACH = 5
local VERSION = 1
local TAIL = 2
local TAIL_THERE = 3
local CANDIDATES = 4
sweep(SWEEP_MAX)
local record, result, again = target(ARGV[FIRST], GENERATION, QUERY, DEADLINE)
if result then return answer({result, record and shown(record) or nil}) end
if again then return answer({is_live(record) and 'repeat' or 'ended', shown(record)}) end
local ids, old = {}, {}
for at = FIRST, #ARGV, EACH do ids[#ids + 1] = ARGV[at] end
local found = fetch(ids)
expect(EXPECTED_CHANGE)
for index, id in ipairs(ids) do
  local one = found[id] or ended_record(id)
  if not one then return answer({'unknown', id}) end
  if one.state == 'reserved' then return answer({'reserved', shown(one)}) end
  if one.state ~= 'confirmed' then return answer({'ended', shown(one)}) end
  if one.version ~= tonumber(ARGV[FIRST + EACH * (index - 1) + VERSION]) then return answer({'stale'}) end
  old[index] = one
end

record = old[1]
if WHAT == 'begin' then
  if record.moving then return answer({'moving', shown(record)}) end
  local measures, candidates = unpack(cmsgpack.unpack(ARGV[FIRST + CANDIDATES]))
  local to, _, reasons = choose(measures, candidates, nil, {})
  if not to then return answer({'conflict', '1', reasons or ''}) end
  if to == record.machine then return answer({'repeat', shown(record)}) end
  local before_move, tail = copy_of(record), ARGV[FIRST + TAIL_THERE]
  record.moving = {to = to, since = now, ['until'] = now + tonumber(LASTS_S)}
  if tail ~= '' then record.moving.tail, record.moving.new = tail, cjson.decode('{' .. tail .. '}') end
  hold_on(to, record.moving.new or record, 1)
  changed(record, before_move)
  result = 'done'
elseif WHAT == 'cancel' and record.moving then
  finish(record)
  result = 'done'
elseif WHAT == 'cancel' or ARGV[FIRST + TAIL] == '' then
  result = 'repeat'
end
if result then
  remember(QUERY, DEADLINE, act_on(record))
  commit()
  return answer({result, shown(record)})
end

for _, one in ipairs(old) do hold(one, -1) end
local done = {}
for index, one in ipairs(old) do
  local at = FIRST + EACH * (index - 1)
  local tail, measures, candidates = ARGV[at + TAIL], unpack(cmsgpack.unpack(ARGV[at + CANDIDATES]))
  local new = cjson.decode('{' .. tail .. '}')
  new.tail, new.id, new.generation, new.state = tail, one.id, one.generation, 'confirmed'
  new.reserved_at, new.started_at, new.expires_at, new.ended_at = one.reserved_at, one.started_at, 0, 0
  if one.moving then
    new.machine, new.moving = one.machine, one.moving
    if one.moving.new then
      local there = ARGV[at + TAIL_THERE]
      new.moving = copy_of(one.moving)
      new.moving.tail, new.moving.new = there, cjson.decode('{' .. there .. '}')
    end
    local full, number, reason = choose(measures, candidates, nil, {}, true)
    if full then return answer({'conflict', tostring(index), reason, number}) end
  else
    local to, _, reasons = choose(measures, candidates, nil, {})
    if not to then return answer({'conflict', tostring(index), reasons or ''}) end
    new.machine = to
  end
  if new.machine ~= one.machine then new.started_at = now end
  hold(new, 1)
  done[index] = new
end
for index, new in ipairs(done) do changed(new, old[index]) end
remember(QUERY, DEADLINE, act_on(done[1]))
commit()
local shown_records = {'done'}
for _, new in ipairs(done) do shown_records[#shown_records + 1] = shown(new) end
return answer(shown_records)
