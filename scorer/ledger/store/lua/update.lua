--[[ Move, resize or change the role of a confirmed instance; two together when they swap roles. Begin a move, or end it.

ARGV[4] id of the query ("": none)
ARGV[5] its deadline, epoch seconds (0: none)
ARGV[6] generation the first of the instances must be ("": any)
ARGV[7] change number that the whole ledger must still have ("-1": any); given when a rule looks beyond one machine
ARGV[8...] five for each instance that changes:
  id; version its record must still have; the new record's tail ("": it stays as it is); its candidates: where it may
  go, its own machine included; the first with room is taken; seconds that a move may take ("": none begins; "0": the one
  under way ends, its tail and candidates are not looked at; "{...}": none begins, and this is the new tail, in braces,
  where it moves to: of one that moves with another size)

With seconds the instance stays as it is and holds the candidate, too, until the move is confirmed, cancelled or its time
is over; a tail is then what it is there. A moving instance that changes otherwise stays on both machines: each of its
candidates must have room.

Result: {"done", record, ...}, {"repeat", record} (this query changed it before, or it stays), {"stale"} (another version),
{"conflict", number of the instance, reasons, number of the first candidate with one (none: 1)}, {"ended", record}, {"reserved", record}, {"moving", record} (a move is
under way), {"generation", record}, {"gone"}, {"late"} or {"unknown", id}. All of the instances change or none. ]]
sweep(SWEEP_MAX)
local FIRST, STEP = 8, 5
local first, result, again = target(ARGV[FIRST], ARGV[6], ARGV[4], ARGV[5])
if result then return answer({result, first and shown(first) or nil}) end
if again then return answer({is_live(first) and 'repeat' or 'ended', shown(first)}) end
local ids, old = {}, {}
for position = FIRST, #ARGV, STEP do ids[#ids + 1] = ARGV[position] end
local found = fetch(ids)
moved_on = tonumber(ARGV[7]) >= 0 and tonumber(ARGV[7]) ~= change
for index, id in ipairs(ids) do
  local record = found[id] or ended_record(id)
  if not record then return answer({'unknown', id}) end
  if record.state == 'reserved' then return answer({'reserved', shown(record)}) end
  if record.state ~= 'confirmed' then return answer({'ended', shown(record)}) end
  if record.version ~= tonumber(ARGV[FIRST + 1 + STEP * (index - 1)]) then return answer({'stale'}) end
  old[index] = record
end

local record, lasts_s = old[1], ARGV[FIRST + 4]
if string.sub(lasts_s, 1, 1) == '{' then lasts_s = '' end
if lasts_s == '0' and record.moving then
  finish(record)
elseif lasts_s ~= '' and lasts_s ~= '0' then
  if record.moving then return answer({'moving', shown(record)}) end
  local to, _, reasons = choose(ARGV[FIRST + 3], {})
  if not to then return answer({'conflict', '1', reasons}) end
  if to == record.machine then return answer({'repeat', shown(record)}) end
  local before_move, tail = copy_of(record), ARGV[FIRST + 2]
  record.moving = {to = to, since = now, ['until'] = now + tonumber(lasts_s)}
  if tail ~= '' then record.moving.tail, record.moving.new = tail, cjson.decode('{' .. tail .. '}') end
  hold_on(to, record.moving.new or record, 1)
  changed(record, before_move)
elseif lasts_s == '0' or ARGV[FIRST + 2] == '' then
  remember(ARGV[4], ARGV[5], record)
  return answer({'repeat', shown(record)})
end
if lasts_s ~= '' then
  remember(ARGV[4], ARGV[5], record)
  commit()
  return answer({'done', shown(record)})
end

for _, one in ipairs(old) do hold(one, -1) end
local done = {}
for index, one in ipairs(old) do
  local at = FIRST + STEP * (index - 1)
  local tail, candidates = ARGV[at + 2], ARGV[at + 3]
  local new = cjson.decode('{' .. tail .. '}')
  new.tail, new.id, new.state, new.reserved_at, new.started_at = tail, one.id, 'confirmed', one.reserved_at, one.started_at
  new.expires_at, new.ended_at = 0, 0
  if one.moving then
    new.machine, new.moving = one.machine, one.moving
    if one.moving.new then
      new.moving = copy_of(one.moving)
      new.moving.tail, new.moving.new = string.sub(ARGV[at + 4], 2, -2), cjson.decode(ARGV[at + 4])
    end
    local full, number, reason = choose(candidates, {}, true)
    if full then return answer({'conflict', tostring(index), reason, number}) end
  else
    local to, _, reasons = choose(candidates, {})
    if not to then return answer({'conflict', tostring(index), reasons}) end
    new.machine = to
  end
  if new.machine ~= one.machine then new.started_at = now end
  hold(new, 1)
  done[index] = new
end
for index, new in ipairs(done) do changed(new, old[index]) end
remember(ARGV[4], ARGV[5], done[1])
commit()
local shown_records = {'done'}
for _, new in ipairs(done) do shown_records[#shown_records + 1] = shown(new) end
return answer(shown_records)
