--[[ Functions shared by the transitions of the ledger. A script begins with those that it uses; each local in capitals, a
script's own among them, is a constant: its value is put in where it is used (`scorer.ledger.store.scripts`). Each argument
has such a name, and one meaning. SCRIPT is the script's name.
A script first plans on copies (rows, counts, clusters), then writes everything at once (commit), so it never stops
halfway.

The life of an instance; each step is one script, whose header tells what it does in every state:

                 reserve              confirm
    (unknown) ───────────> reserved ───────────> confirmed ──┐ update: move, resize, role
                             │    │                │     ^───┘
                     expire  │    │ release        │ release
                             v    v                v
                         expired  released <───────┘          both: known for a day, then unknown

A confirmed instance may be moving: it holds its machine and the one it moves to, with all its amounts, ports and its role
on both; its cluster counts it once. A move may give it another size: then it holds its old amounts on the first machine
and the new ones on the other. It is confirmed on the first until the move is:

                                   update: move                 confirm(machine = the new one)
    confirmed on A ──────────────────────> A, moving to B ──────────────────────> confirmed on B, A is free
                    <──────────────────────      │ release: both are free
                     the time is over: B is free, or
                     update: cancel

An id may be reserved anew once it has ended. Each reservation is a generation of its id, a number of 53 bits that the
scorer draws at random. A number that is counted would be given again by a server that lost the end of the ledger, and so
would a time by one whose clock is behind. Two generations of an id are the same in one of 9 * 10^15 cases, whatever the
server remembers. The instances of one script share the number. A move has such a number, too.

A repeated step changes nothing and gives the same answer. What a query did is remembered until a minute after its
deadline; after its deadline a query does nothing. So a query that is delivered again, however late, never acts on
another generation than it did before. A script decides in this order: the deadline has passed ("late"); the query has
acted: its own generation, or "gone" when that has ended; then by the state of the id.

The first script that runs after expires_at expires a reservation; from that moment on the reservation has ended.

KEYS[1] head       hash    format: 1; epoch: name of this ledger's life; change: number of its last change;
                           leavers: how many there are (KEYS[11]); due: nothing is due before that time; "": unknown;
                           far: its last change with a rule beyond one machine, absent without one
KEYS[2] instances  hash    id -> record of each live (reserved, confirmed) instance
KEYS[3] expiry     zset    id of each reserved instance by expires_at
KEYS[4] machines   hash    machine -> "version class:name=amount,name=amount class:...", absent without instances
KEYS[5] counts     hash    "machine what" -> how many instances there are counted under `what`, absent at 0
KEYS[6] clusters   hash    cluster -> "version count", absent when it has no instance
KEYS[7] log        stream  <change>-0: field i = the record after the change; then fields event, at, and where they say
                           something source, target, renamed, why (schemas.messages.event). Reservations of one script
                           are together in an entry without these, which has the number of the last: a field i for
                           each. About the last ARGV[2] changes are kept
KEYS[8] ended      prefix  <prefix>:<id> -> record of a released or expired instance, for ARGV[3] seconds
                   list    "<version> <id>" of each, oldest first, at most ENDED_MOST; the oldest are forgotten
KEYS[9] queries    prefix  <prefix>:<query> -> hash of "script id" -> generation acted on, until deadline + 60 s
KEYS[10] leases    hash    "<name> number", "<name> holder", "<name> until" of each lease (lease.lua)
KEYS[11] leavers   zset    record of each instance that was confirmed and ended or moved away, by the end, as it was on the
                           machine it left: what the windows still show of it; for LEAVERS_S, at most LEAVERS_MOST; and
                           of each whose start failed (failed: true)
KEYS[12] moving    zset    id of each moving instance by the time its move ends by itself
ARGV[1] "1": try only, write nothing but what has expired
ARGV[2] log length
ARGV[3] how long an ended id stays known, seconds
ARGV[4] number drawn at random: generation of what this script reserves, number of the move that it begins
ARGV[5...] as the script says

A record is one JSON object in lines. The first is what the scripts write: version, generation, state, machine, times and,
of a moving instance, `moving` {to, since, until, number: as drawn}. The last is the record's tail, which came from the
scorer and is passed on byte for byte, since encoding it here would cut its numbers to 14 digits. A move to another size
has `new` in `moving`: what the tail becomes, on a line of its own. JSON has no line break within a text, so a tail is
taken by its line, whatever it says; nothing is ever looked for in one:

    {"version":9,...,"ended_at":0.000000,"moving":{"to":"m2",...,"number":9,"new":{
    <the tail there>
    }},
    <the tail>}

Of a tail the scripts read: `amounts` {resource: whole units} and `maxmemory`, null or absent: not given, adds nothing;
`priority_class`; `counts` [what, ...]; `cluster`; `request`. The units are the scorer's (`scorer.ledger.record.instance`): nothing
is scaled here, so scripts of releases that know different resources keep each other's sums. Sums are whole numbers, so
they never drift.

A machine's row has a group of sums for each priority class that is there: `instances` (how many), `maxmemory` and each
resource. Candidates come packed by MessagePack as two lists. One has what limits are on: each a list of three for each
limit, [what the instance adds, name, over, ...]. Over is 0 for a sum over all classes, "class class" for one over these,
1 for a count. The other has the candidates: [machine, version, number in the first list, most, ...], a most for each
limit; below 0 is no limit.

A version is the number of the last change that touched a machine or cluster; an empty one has none, so that nothing
has to be kept for it: equal versions mean equal contents.

What later releases add needs no other format number, since a record's tail and the head are open, sums and counts have
names, and nothing reads a key it does not know.

Every script returns {epoch, change before, {records changed, in order}, results}, packed by MessagePack (as one text,
since the server is slow to send tables in tables); where a result has a record it is its number among the changed, or
its text when it did not change. Or an error reply, LEDGERFORMAT and the number of the format that is there: another than
this one is neither read nor written. The first script on a server without a ledger begins one. Or an error with the
word LEDGERTORN and what cannot be read, a live record or a row: the script has written nothing but what was due. ]]
local HEAD = KEYS[1]
local INSTANCES = KEYS[2]
local EXPIRY = KEYS[3]
local MACHINES = KEYS[4]
local COUNTS = KEYS[5]
local CLUSTERS = KEYS[6]
local LOG = KEYS[7]
local ENDED = KEYS[8]
local QUERIES = KEYS[9]
local LEASES = KEYS[10]
local LEAVERS = KEYS[11]
local MOVING = KEYS[12]
local DRY = (ARGV[1] == '1')
local LOG_LENGTH = ARGV[2]
local ENDED_S = ARGV[3]
local DRAWN = ARGV[4]
local FORMAT = '1'
-- How far ahead the next time at which something is due is said.
local DUE_S = 3600
local SWEEP_MAX = 200
local FIELDS_MAX = 200
-- How many ended ids and leavers are kept at most (the scorer's settings stand here); leavers the longest window twice.
local ENDED_MOST = 1000000
local LEAVERS_MOST = 100000
local LEAVERS_S = 7200
-- How far ahead a deadline may be, what a query without one is given, and how much longer than it a query is remembered.
local DEADLINE_MAX_S = 3600
local DEADLINE_S = 60
local REMEMBER_MORE_S = 60
local STATES = ' reserved confirmed released expired '
local CLASSES = ' prod mid batch free '
local NO_BLANK = '^[!-~]+$'
-- A record's fields by type, as far as the scripts or every scorer read them; the largest number of a field.
local TEXTS = {'id', 'machine', 'state', 'priority_class', 'cluster', 'role', 'kind', 'request'}
local TABLES = {'amounts', 'counts', 'expected', 'labels', 'limits', 'ports', 'swap'}
local NUMBERS = {'version', 'generation', 'reserved_at', 'started_at', 'expires_at', 'ended_at'}
local NUMBER_MAX = 2 ^ 53
local DIGITS_MAX = 15
-- The server's clock (a test's stands here).
local CLOCK = redis.call('TIME')

local time = CLOCK
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local stamp = time[1] .. '.' .. string.format('%06d', tonumber(time[2]))
local head = redis.call('HMGET', HEAD, 'format', 'epoch', 'change', 'due', 'far', 'leavers')
if head[1] and head[1] ~= FORMAT then
  return redis.error_reply('LEDGERFORMAT ' .. head[1])
elseif head[3] and (#head[3] > DIGITS_MAX or not string.match(head[3], '^%d+$')) then
  return redis.error_reply('LEDGERTORN the number of the last change')
elseif head[2] and string.find(head[2], '[\128-\255]') then
  return redis.error_reply('LEDGERTORN the epoch')
elseif not head[1] and not DRY then
  redis.call('HSET', HEAD, 'format', FORMAT, 'epoch', stamp, 'change', '0')
end
if head[6] and (#head[6] > DIGITS_MAX or not string.match(head[6], '^%-?%d+$')) then redis.call('HDEL', HEAD, 'leavers') end
local epoch = head[2] or stamp
local before = tonumber(head[3] or '0')
local change = before
-- Nothing is due before this time, neither a reservation nor a move; nil: unknown.
local due = tonumber(head[4] or '')

-- Whether the ledger is another than its scorer saw; where a rule looks beyond one machine, no candidate will do then.
local moved_on = false
local far = tonumber(head[5] or '-1')

-- Note which ledger the scorer saw: the change that it must still have or, below -1, -2 less the change since which no
-- instance with a rule beyond one machine may have come.
local function expect(seen)
  seen = tonumber(seen)
  moved_on = seen >= 0 and seen ~= change or seen < -1 and far > -2 - seen
  if seen >= 0 then far = nil end
end
local rows, counts, clusters, changes, written, acts = {}, {}, {}, {}, {}, {}

-- The values of some fields of a hash, in order; false for one that is not there. Faster than one by one.
local function read_many(key, fields)
  local values = {}
  for first = 1, #fields, FIELDS_MAX do
    local found = redis.call('HMGET', key, unpack(fields, first, math.min(first + FIELDS_MAX - 1, #fields)))
    for position, value in ipairs(found) do values[first + position - 1] = value end
  end
  return values
end

-- End the script where something cannot be read. A repair takes it for nothing: its next pass sees what is wrong then.
local function torn(what, name)
  if SCRIPT ~= 'repair' then error('LEDGERTORN the ' .. what .. ' of ' .. cjson.encode(name)) end
end

-- What a machine holds; packed: its row in its text, false where it holds nothing; nil: as it is stored.
local function row(machine, packed)
  local found = rows[machine]
  if not found then
    found = {version = 0, classes = {}}
    if packed == nil then packed = redis.call('HGET', MACHINES, machine) end
    if packed then
      found.version = tonumber(string.match(packed, '^%d+'))
      for class, body in string.gmatch(packed, ' ([^ :]+):(%S+)') do
        local sums = {}
        for name, amount in string.gmatch(body, '([^=,]+)=(%d+)') do sums[name] = tonumber(amount) end
        found.classes[class] = sums
        if not sums.instances then found.version = nil end
      end
      if not found.version then
        torn('row', machine)
        found.version, found.classes = 0, {}
      end
    end
    rows[machine] = found
  end
  return found
end

-- Note that the row of a machine is changed by this change.
local function touch(machine)
  local at = row(machine)
  at.touched, at.version = true, change
end

local function cluster_row(cluster)
  local found = clusters[cluster]
  if not found then
    local packed = redis.call('HGET', CLUSTERS, cluster)
    local version, count = string.match(packed or '0 0', '^(%d+) (%d+)$')
    if not version then torn('row', cluster) end
    found = {version = tonumber(version or '0'), count = tonumber(count or '0')}
    clusters[cluster] = found
  end
  return found
end

local function count_of(machine, what)
  local field = machine .. ' ' .. what
  local found = counts[field]
  if not found then
    found = tonumber(redis.call('HGET', COUNTS, field) or '0')
    if not found then torn('count', field) end
    counts[field] = found
  end
  return found, field
end

-- Raise an error for a number that is none, or out of range; whole: or a part of one.
local function check_number(value, whole)
  assert(value >= 0 and value <= NUMBER_MAX and (not whole or value % 1 == 0))
end

-- Raise an error where a record, or what it becomes by its move, is none of this id, or holds what cannot be added.
local function check_held(held, id)
  for _, name in ipairs(TEXTS) do assert(held[name] == nil or type(held[name]) == 'string') end
  for _, name in ipairs(TABLES) do assert(held[name] == nil or type(held[name]) == 'table') end
  for name, amount in pairs(held.amounts) do
    assert(type(name) == 'string')
    if amount ~= cjson.null then check_number(amount, true) end
  end
  if held.maxmemory and held.maxmemory ~= cjson.null then check_number(held.maxmemory, true) end
  for _, what in ipairs(held.counts or {}) do assert(type(what) == 'string') end
  held.priority_class = held.priority_class or 'prod'
  assert(held.id == id and string.find(CLASSES, ' ' .. held.priority_class .. ' ', 1, true))
end

-- A record by its text; its tails are whole lines of it. Raises an error for what is no record of this id.
local function decode(value, id)
  local record = cjson.decode(value)
  local line = string.find(value, '\n', 1, true)
  for position, name in ipairs(NUMBERS) do check_number(record[name], position <= 2) end
  check_held(record, id)
  local moving = record.moving
  if moving then
    assert(string.find(moving.to, NO_BLANK))
    check_number(moving.since)
    check_number(moving['until'])
    check_number(moving.number or 0, true)
  end
  if moving and moving.new then
    check_held(moving.new, id)
    assert(moving.new.priority_class == record.priority_class)
    local last = string.find(value, '\n', line + 1, true)
    moving.tail = string.sub(value, line + 1, last - 1)
    line = string.find(value, '\n', last + 1, true)
  end
  record.tail = string.sub(value, line + 1, -2)
  assert(string.find(record.machine, NO_BLANK) and string.find(STATES, ' ' .. record.state .. ' ', 1, true))
  return record
end

-- A record by its text, nil for one that cannot be read.
local function readable(value, id)
  local whole, record = pcall(decode, value, id)
  return whole and record or nil
end

local function encode(record)
  local moves, moving = '', record.moving
  if moving then
    moves = string.format('"moving":{"to":%s,"since":%.6f,"until":%.6f,"number":%.0f', cjson.encode(moving.to),
      moving.since, moving['until'], moving.number or 0) .. (moving.tail and ',"new":{\n' .. moving.tail .. '\n}},' or '},')
  end
  return string.format(
    '{"version":%.0f,"generation":%.0f,"state":"%s","machine":%s,"reserved_at":%.6f,"started_at":%.6f,"expires_at":%.6f,'
      .. '"ended_at":%.6f,%s\n%s}',
    record.version or 0, record.generation or 0, record.state, cjson.encode(record.machine), record.reserved_at or 0,
    record.started_at or 0, record.expires_at or 0, record.ended_at or 0,
    record.failed and moves .. '"failed":true,' or moves, record.tail)
end

local function generation_of(record)
  return string.format('%.0f', record.generation or 0)
end

local function is_live(record)
  return record.state == 'reserved' or record.state == 'confirmed'
end

-- Add (sign 1) to a machine what a record holds, or take it away (sign -1).
local function hold_on(machine, record, sign)
  local at = row(machine)
  local sums = at.classes[record.priority_class]
  if not sums then
    sums = {instances = 0}
    at.classes[record.priority_class] = sums
  end
  sums.instances = sums.instances + sign
  for name, amount in pairs(record.amounts) do
    if amount ~= cjson.null and amount ~= 0 then sums[name] = (sums[name] or 0) + sign * amount end
  end
  local maxmemory = record.maxmemory
  if maxmemory and maxmemory ~= cjson.null and maxmemory ~= 0 then
    sums.maxmemory = (sums.maxmemory or 0) + sign * maxmemory
  end
  if record.counts then
    for _, what in ipairs(record.counts) do
      local count, field = count_of(machine, what)
      counts[field] = count + sign
    end
  end
end

local function hold(record, sign)
  hold_on(record.machine, record, sign)
  if record.moving then hold_on(record.moving.to, record.moving.new or record, sign) end
  if record.cluster and record.cluster ~= '' then
    local members = cluster_row(record.cluster)
    members.count = members.count + sign
  end
end

-- Return why a record does not fit on a candidate: 'changed' or the number of the limit that is exceeded; nil when it
-- fits. A version below 0 is not compared.
local function misfit(measures, candidate, touched)
  local machine, version = candidate[1], candidate[2]
  local at = row(machine)
  if version >= 0 and at.version ~= version and not touched[machine] then return 'changed' end
  for position = 4, #candidate do
    local most, measure = candidate[position], 3 * (position - 4)
    if most >= 0 then
      local name, over, held = measures[measure + 2], measures[measure + 3], 0
      if over == 1 then
        held = count_of(machine, name)
      elseif over == 0 then
        for _, sums in pairs(at.classes) do held = held + (sums[name] or 0) end
      else
        for class in string.gmatch(over, '%S+') do
          local sums = at.classes[class]
          held = held + (sums and sums[name] or 0)
        end
      end
      if held + measures[measure + 1] > most then return tostring(position - 3) end
    end
  end
  return nil
end

-- Try candidates until one has room; all: until one has none, since each must have room, whatever else the ledger became.
-- numbers: which of the candidates, in order (nil: each). Return its machine (nil: there is no such candidate), its
-- position, and the reasons of those without room (nil: there is none).
local function choose(measures, candidates, numbers, touched, all)
  local reasons
  for position = 1, #(numbers or candidates) do
    local candidate = candidates[numbers and numbers[position] or position]
    local reason = moved_on and not all and 'changed' or misfit(measures[candidate[3]], candidate, touched)
    if reason then reasons = reasons and reasons .. ',' .. reason or reason end
    if all and reason or not (all or reason) then return candidate[1], position, reasons end
  end
  return nil, nil, reasons
end

-- Note that a record changed; old: the live record that it replaces, if any.
local function changed(record, old)
  record.written_as = nil
  changes[#changes + 1] = {record, old or nil}
end

local function copy_of(record)
  local copy = {}
  for name, value in pairs(record) do copy[name] = value end
  return copy
end

-- End an instance; without a state only its move, without an arrival: it stays on its machine, and the other is freed.
local function finish(record, state, at)
  local moving = record.moving and copy_of(record)
  if state then
    hold(record, -1)
    record.state, record.ended_at = state, at
  else
    hold_on(record.moving.to, record.moving.new or record, -1)
  end
  record.moving = nil
  changed(record, moving)
end

-- End a move by an arrival at a moment: the instance is on the machine it moved to, and the other is freed.
local function arrive(record, at)
  local moving = copy_of(record)
  hold_on(record.machine, record, -1)
  local new = record.moving.new
  if new then
    record.tail = record.moving.tail
    record.amounts, record.maxmemory, record.counts = new.amounts, new.maxmemory, new.counts
  end
  record.machine, record.started_at = record.moving.to, math.max(at, record.moving.since)
  record.moving = nil
  changed(record, moving)
end

-- Call a command on a key with as many arguments as there are, some hundred at a time; nil: with none, so not at all.
local function call_many(command, key, arguments)
  if not arguments then return end
  for first = 1, #arguments, FIELDS_MAX do
    redis.call(command, key, unpack(arguments, first, math.min(first + FIELDS_MAX - 1, #arguments)))
  end
end

-- Return a list, begun where there is none, with one or two values at its end.
local function with(list, value, other)
  if not list then return {value, other} end
  list[#list + 1] = value
  if other then list[#list + 1] = other end
  return list
end

-- Write the rows that were touched; every count and every cluster that was looked at.
local function write_sums()
  local set, gone
  for machine, at in pairs(rows) do
    if at.touched then
      at.touched = nil
      local parts, empty = {string.format('%.0f', at.version)}, true
      for class, sums in pairs(at.classes) do
        if sums.instances > 0 then
          empty = false
          parts[#parts + 1] = string.format(' %s:instances=%.0f', class, sums.instances)
          for name, sum in pairs(sums) do
            if name ~= 'instances' and sum > 0 then parts[#parts + 1] = string.format(',%s=%.0f', name, sum) end
          end
        else
          at.classes[class] = nil
        end
      end
      if empty then
        gone = with(gone, machine)
        at.version = 0
      else
        set = with(set, machine, table.concat(parts))
      end
    end
  end
  call_many('HSET', MACHINES, set)
  call_many('HDEL', MACHINES, gone)
  set, gone = nil, nil
  for field, count in pairs(counts) do
    if count > 0 then set = with(set, field, string.format('%d', count)) else gone = with(gone, field) end
  end
  call_many('HSET', COUNTS, set)
  call_many('HDEL', COUNTS, gone)
  set, gone = nil, nil
  for cluster, members in pairs(clusters) do
    if members.count > 0 then
      set = with(set, cluster, string.format('%.0f %.0f', members.version, members.count))
    else
      gone = with(gone, cluster)
      members.version = 0
    end
  end
  call_many('HSET', CLUSTERS, set)
  call_many('HDEL', CLUSTERS, gone)
end

-- Note what a query acted on, "script id" and generation of each, to be written with the answer; nothing when the query
-- has no id or is only tried.
local function remember(query, deadline, fields)
  if query ~= '' and not DRY then acts[#acts + 1] = {query, tonumber(deadline), fields} end
end

-- What a query that acted on a record is remembered by.
local function act_on(record)
  return {SCRIPT .. ' ' .. record.id, generation_of(record)}
end

-- The generation of an id that a query acted on; false when it has not acted.
local function acted(query, id)
  return query ~= '' and redis.call('HGET', QUERIES .. ':' .. query, SCRIPT .. ' ' .. id)
end

-- Whether another holder has taken a lease since this number was given.
local function is_fenced(name, number)
  return redis.call('HGET', LEASES, name .. ' number') ~= number
end

local function is_late(deadline)
  deadline = tonumber(deadline)
  return deadline > 0 and deadline <= now
end

-- Keep what is left of a record that ended or moved away; old: the live record that it replaces. Of an ended instance its
-- record: beyond the most there may be the oldest are forgotten, unless they ended anew. Of one that was confirmed a
-- leaver, too; one that never was has used nothing.
local function keep(record, value, old)
  local left, left_at
  if not is_live(record) then
    redis.call('SET', ENDED .. ':' .. record.id, value, 'EX', ENDED_S)
    local count = redis.call('RPUSH', ENDED, string.format('%.0f %s', record.version, record.id))
    for _ = 1, math.min(count - ENDED_MOST, 2) do
      local version, id = string.match(redis.call('LPOP', ENDED), '^(%d+) (.*)$')
      local oldest = redis.call('GET', ENDED .. ':' .. id)
      local first = string.format('{"version":%s,', version)
      if oldest and string.sub(oldest, 1, #first) == first then redis.call('DEL', ENDED .. ':' .. id) end
    end
    if (record.started_at or 0) > 0 or record.failed then left, left_at = value, record.ended_at end
  elseif old.machine ~= record.machine and (old.started_at or 0) > 0 then
    left_at = record.started_at
    left = encode({version = record.version, generation = old.generation, state = 'released', machine = old.machine,
      reserved_at = old.reserved_at, started_at = old.started_at, expires_at = 0, ended_at = left_at, tail = old.tail})
  end
  if not left then return end
  redis.call('ZADD', LEAVERS, string.format('%.6f', left_at), left)
  local count = redis.call('HINCRBY', HEAD, 'leavers', 1)
  local gone = redis.call('ZRANGEBYSCORE', LEAVERS, '-inf', string.format('%.6f', now - LEAVERS_S), 'LIMIT', 0, SWEEP_MAX)
  if count - #gone > LEAVERS_MOST then
    gone = redis.call('ZRANGEBYSCORE', LEAVERS, '-inf', '+inf', 'LIMIT', 0, math.min(count - LEAVERS_MOST, SWEEP_MAX))
  end
  if #gone > 0 then
    redis.call('ZREM', LEAVERS, unpack(gone))
    redis.call('HINCRBY', HEAD, 'leavers', -#gone)
  end
end

-- An entry of the log for a change of one record: the record's text, and what readers of events cannot tell from it.
-- old: the live record that it replaces, if that is known; began: whether it is a reservation that `correct` made.
local function entry_of(record, value, old, began)
  local event, name, machine, why = 'updated', 'source', nil, SCRIPT == 'repair' and 'repair'
  local moving, inventory = old and old.moving, SCRIPT == 'correct' and 'inventory'
  if not is_live(record) then
    event, why = record.state, record.failed and 'failed' or record.state == 'released' and inventory
  elseif record.renamed then
    event, name, machine = 'renamed', 'renamed', record.renamed
  elseif moving and not record.moving and old.machine == record.machine then
    event, name, machine = 'stayed', 'target', moving.to
    why = moving['until'] <= now and 'expired' or inventory or 'cancelled'
  else
    why = why or inventory
    if began then
      event = 'placed'
    elseif old and old.machine ~= record.machine then
      event, machine = 'moved', old.machine
    elseif old and record.moving and not moving then
      event = 'moving'
    elseif record.state == 'confirmed' and (SCRIPT == 'confirm' or old and old.state == 'reserved') then
      event = 'confirmed'
    end
  end
  local entry = {'i', value, 'event', event, 'at', stamp}
  if machine then with(entry, name, machine) end
  if why then with(entry, 'why', why) end
  return entry
end

-- Write an entry of the log, with the number of the last change, and forget those that are too old.
local function add_to_log(fields)
  local oldest = string.format('%.0f', math.max(0, change - LOG_LENGTH))
  redis.call('XADD', LOG, 'MINID', '~', oldest, string.format('%.0f-0', change), unpack(fields))
end

-- Write what the ledger's head says of the last change.
local function write_head()
  redis.call('HSET', HEAD, 'change', string.format('%.0f', change), 'due', due and string.format('%.6f', due) or '')
  if not far then redis.call('HSET', HEAD, 'far', string.format('%.0f', change)) end
end

-- Write everything noted since the last call. What has expired is written even when the rest is only tried.
local function commit(always)
  local noted = changes
  if #noted == 0 then return end
  changes = {}
  if DRY and not always then return end
  local live, waiting, settled, moving, still = {}, nil, nil, nil, nil
  for _, entry in ipairs(noted) do
    local record, old, began = entry[1], entry[2], entry[1].new
    change = change + 1
    record.version = change
    if began then
      record.new, record.generation = nil, record.generation or tonumber(DRAWN)
    end
    if record.moving then
      record.moving.number = record.moving.number or tonumber(DRAWN)
      due = due and math.min(due, record.moving['until'])
      moving = with(moving, string.format('%.6f', record.moving['until']), record.id)
    elseif old and old.moving then
      still = with(still, record.id)
    end
    local value = encode(record)
    written[#written + 1] = value
    record.written_as = #written
    if is_live(record) then
      live[record.id] = value
      if record.revived then redis.call('DEL', ENDED .. ':' .. record.id) end
      if old and not record.renamed then keep(record, value, old) end
    else
      live[record.id] = false
      keep(record, value, old)
    end
    if record.state == 'reserved' then
      due = due and math.min(due, record.expires_at)
      waiting = with(waiting, string.format('%.6f', record.expires_at), record.id)
    else
      settled = with(settled, record.id)
    end
    add_to_log(entry_of(record, value, old, began))
    for _, one in ipairs(entry) do
      touch(one.machine)
      if one.moving then touch(one.moving.to) end
      if one.cluster and one.cluster ~= '' then cluster_row(one.cluster).version = change end
    end
  end
  local set, gone
  for id, value in pairs(live) do
    if value then set = with(set, id, value) else gone = with(gone, id) end
  end
  call_many('HSET', INSTANCES, set)
  call_many('HDEL', INSTANCES, gone)
  call_many('ZREM', EXPIRY, settled)
  call_many('ZADD', EXPIRY, waiting)
  call_many('ZREM', MOVING, still)
  call_many('ZADD', MOVING, moving)
  write_sums()
  write_head()
end

local function ended_record(id)
  local value = redis.call('GET', ENDED .. ':' .. id)
  return value and readable(value, id)
end

-- The live records of some ids, by id. One that cannot be read ends the script; around: it is left out. What of them is
-- due is expired, a move whose time is over has ended, is in the result as that, and is written at once: what a script
-- plans and gives up later must not take it along.
local function fetch(ids, around)
  local found = {}
  for position, value in ipairs(read_many(INSTANCES, ids)) do
    local id = ids[position]
    if value then found[id] = found[id] or readable(value, id) end
    if value and not (found[id] or around) then torn('record', id) end
  end
  for _, id in ipairs(ids) do
    local record = found[id]
    if record and record.state == 'reserved' and record.expires_at <= now then
      finish(record, 'expired', record.expires_at)
    elseif record and record.moving and record.moving['until'] <= now then
      finish(record)
    end
  end
  commit(true)
  return found
end

-- The record that a step of a query is about; a result in its place, with or without a record; whether the query has
-- taken this step before.
local function target(id, generation, query, deadline)
  if is_late(deadline) then return nil, 'late' end
  local record = fetch({id})[id]
  local before = acted(query, id)
  if before then
    if not record or generation_of(record) ~= before then record = ended_record(id) end
    if not record or generation_of(record) ~= before then return nil, 'gone' end
    return record, nil, true
  end
  record = record or ended_record(id)
  if not record then return nil, 'unknown' end
  if generation ~= '' and generation_of(record) ~= generation then return record, 'generation' end
  return record
end

-- Expire due reservations and moves, at most so many of each, before anything is decided.
local function sweep(most)
  if due and due > now then return 0 end
  local waiting = redis.call('ZRANGEBYSCORE', EXPIRY, '-inf', stamp, 'LIMIT', 0, most)
  local found = fetch(waiting, true)
  for _, id in ipairs(waiting) do
    local record = found[id]
    if not record or is_live(record) then redis.call('ZREM', EXPIRY, id) end
  end
  local over = redis.call('ZRANGEBYSCORE', MOVING, '-inf', stamp, 'LIMIT', 0, most)
  if #over > 0 then
    found = fetch(over, true)
    for _, id in ipairs(over) do
      if not (found[id] and found[id].moving) then redis.call('ZREM', MOVING, id) end
    end
  end
  due = now + DUE_S
  for _, key in ipairs({EXPIRY, MOVING}) do
    local first = redis.call('ZRANGEBYSCORE', key, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if first[2] then due = math.min(due, tonumber(first[2])) end
  end
  return #waiting + #over
end

-- Write what is noted, and what each query acted on, and return the answer.
local function answer(results)
  commit()
  for _, act in ipairs(acts) do
    local key, deadline = QUERIES .. ':' .. act[1], act[2]
    local until_s = deadline > 0 and math.min(deadline, now + DEADLINE_MAX_S) or now + DEADLINE_S
    call_many('HSET', key, act[3])
    redis.call('EXPIRE', key, math.ceil(until_s - now) + REMEMBER_MORE_S)
  end
  return cmsgpack.pack({epoch, before, written, results})
end

-- The record for an answer: its number among those that this script changed, or its text.
local function shown(record)
  return record.written_as or encode(record)
end

