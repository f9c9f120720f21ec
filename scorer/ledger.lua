--[[ What every transition of the ledger shares; put in front of each of the other scripts. Written to never fail halfway:
a script first plans on copies (row, port, masters), then writes everything at once (commit).

KEYS[1] head       hash    epoch: name of this ledger's life; change: number of its last change
KEYS[2] instances  hash    id -> record of each live (reserved, confirmed) instance
KEYS[3] expiry     zset    id of each reserved instance by expires_at
KEYS[4] machines   hash    machine -> "version count maxmemory amount amount ...", absent when it holds nothing
KEYS[5] masters    hash    "machine cluster" -> masters of the cluster there
KEYS[6] ports      hash    "machine port" -> id
KEYS[7] clusters   hash    cluster -> "version count", absent when it has no instance
KEYS[8] log        stream  <change>-0: field i = the record after the change; trimmed to about ARGV[2] entries
KEYS[9] ended      prefix  <prefix>:<id> -> record of a released or expired instance, for ARGV[3] seconds
ARGV[1] "1": try only, write nothing but what has expired
ARGV[2] log length
ARGV[3] seconds an ended id stays known
ARGV[4...] as the script says

A record is one JSON object whose first line holds what transitions change (version, state, machine, times); the rest
came from the scorer and is passed on byte for byte, since encoding it here would cut its numbers to 14 digits. Sums are
whole numbers (cpu in millionths of a core, memory in bytes, nic in bytes/s), so adding and taking away never drifts.
A version is the number of the last change that touched a machine or cluster; an empty one has none, so that nothing
has to be kept for it: equal versions mean equal contents.

Every script returns {epoch, change before, {records changed, in order}, results}. ]]
local HEAD, INSTANCES, EXPIRY, MACHINES, MASTERS, PORTS, CLUSTERS, LOG, ENDED =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local DRY, LOG_LENGTH, REMEMBER_S = ARGV[1] == '1', ARGV[2], ARGV[3]
local SCALE = {1e6, 1, 1}
local SWEEP_MAX = 200

local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local stamp = time[1] .. '.' .. string.format('%06d', tonumber(time[2]))
local head = redis.call('HMGET', HEAD, 'epoch', 'change')
local epoch = head[1] or stamp
local before = tonumber(head[2] or '0')
local change = before

local rows, masters, ports, clusters, changes, written = {}, {}, {}, {}, {}, {}

local function units(position, amount)
  return math.floor(amount * (SCALE[position] or 1) + 0.5)
end

local function row(machine)
  local found = rows[machine]
  if not found then
    found = {version = 0, count = 0, maxmemory = 0, sums = {}}
    local packed = redis.call('HGET', MACHINES, machine)
    if packed then
      local position = 0
      for number in string.gmatch(packed, '%S+') do
        position = position + 1
        local value = tonumber(number)
        if position == 1 then found.version = value
        elseif position == 2 then found.count = value
        elseif position == 3 then found.maxmemory = value
        else found.sums[position - 3] = value end
      end
    end
    rows[machine] = found
  end
  return found
end

local function cluster_row(cluster)
  local found = clusters[cluster]
  if not found then
    local packed = redis.call('HGET', CLUSTERS, cluster)
    local version, count = string.match(packed or '0 0', '^(%d+) (%d+)$')
    found = {version = tonumber(version), count = tonumber(count)}
    clusters[cluster] = found
  end
  return found
end

local function masters_of(machine, cluster)
  local field = machine .. ' ' .. cluster
  if not masters[field] then masters[field] = tonumber(redis.call('HGET', MASTERS, field) or '0') end
  return masters[field], field
end

local function port_owner(machine, port)
  local field = machine .. ' ' .. string.format('%d', port)
  if ports[field] == nil then ports[field] = redis.call('HGET', PORTS, field) or '' end
  return ports[field], field
end

local function decode(value, id)
  local record = cjson.decode(value)
  record.tail = string.sub(value, string.find(value, '\n', 1, true) + 1, -2)
  record.id = record.id or id
  return record
end

local function number(value)
  return string.format('%.6f', value or 0)
end

local function encode(record)
  return table.concat({
    '{"version":', string.format('%.0f', record.version or 0), ',"state":"', record.state, '","machine":',
    cjson.encode(record.machine), ',"reserved_at":', number(record.reserved_at), ',"started_at":',
    number(record.started_at), ',"expires_at":', number(record.expires_at), ',"ended_at":', number(record.ended_at),
    ',\n', record.tail, '}'})
end

-- The record of an id, live or ended; nil when unknown.
local function find(id)
  local value = redis.call('HGET', INSTANCES, id) or redis.call('GET', ENDED .. ':' .. id)
  return value and decode(value, id) or nil
end

-- Add (sign 1) or take away (sign -1) what a record holds.
local function hold(record, sign)
  local at = row(record.machine)
  at.count = at.count + sign
  at.maxmemory = at.maxmemory + sign * units(0, record.maxmemory or 0)
  for position, amount in ipairs(record.amounts) do
    at.sums[position] = (at.sums[position] or 0) + sign * units(position, amount)
  end
  for _, port in ipairs(record.ports or {}) do
    local owner, field = port_owner(record.machine, port)
    if sign > 0 then ports[field] = record.id elseif owner == record.id then ports[field] = '' end
  end
  if record.cluster and record.cluster ~= '' then
    local members = cluster_row(record.cluster)
    members.count = members.count + sign
    if record.role == 'master' then
      local count, field = masters_of(record.machine, record.cluster)
      masters[field] = count + sign
    end
  end
end

-- Say why a record does not fit on its machine within {version, amounts..., maxmemory, masters}; nil when it does.
-- A version below 0 is not compared, a limit below 0 is none.
local function misfit(record, limits, touched)
  local at = row(record.machine)
  if limits[1] >= 0 and not touched[record.machine] and at.version ~= limits[1] then return 'changed' end
  local resources = #record.amounts
  for position, amount in ipairs(record.amounts) do
    local limit, wanted = limits[1 + position], units(position, amount)
    if limit >= 0 and wanted > 0 and (at.sums[position] or 0) + wanted > limit then return 'amount ' .. position end
  end
  local share, wanted = limits[2 + resources], units(0, record.maxmemory or 0)
  if share >= 0 and wanted > 0 and at.maxmemory + wanted > share then return 'maxmemory' end
  for _, port in ipairs(record.ports or {}) do
    local owner = port_owner(record.machine, port)
    if owner ~= '' and owner ~= record.id then return string.format('port %d', port) end
  end
  if record.role == 'master' and record.cluster and record.cluster ~= '' then
    local most, count = limits[3 + resources], masters_of(record.machine, record.cluster)
    if most >= 0 and count > 0 and count + 1 > most then return 'masters' end
  end
  return nil
end

-- Note that a record changed; left: the machine it moved away from.
local function changed(record, left)
  changes[#changes + 1] = {record, left}
end

local function finish(record, state, at)
  hold(record, -1)
  record.state, record.ended_at = state, at
  changed(record)
end

-- Expire one record if its time is over.
local function expire(record)
  if record and record.state == 'reserved' and record.expires_at <= now then
    finish(record, 'expired', record.expires_at)
  end
  return record
end

-- Write everything noted since the last call. What has expired is written even when the rest is only tried.
local function commit(always)
  local noted = changes
  changes = {}
  if #noted == 0 or (DRY and not always) then return end
  local touched = {}
  for _, entry in ipairs(noted) do
    local record, left = entry[1], entry[2]
    change = change + 1
    record.version = change
    local value = encode(record)
    record.value = value
    written[#written + 1] = value
    if record.state == 'reserved' or record.state == 'confirmed' then
      redis.call('HSET', INSTANCES, record.id, value)
      if record.revived then redis.call('DEL', ENDED .. ':' .. record.id) end
    else
      redis.call('HDEL', INSTANCES, record.id)
      redis.call('SET', ENDED .. ':' .. record.id, value, 'EX', REMEMBER_S)
    end
    if record.state == 'reserved' then
      redis.call('ZADD', EXPIRY, number(record.expires_at), record.id)
    else
      redis.call('ZREM', EXPIRY, record.id)
    end
    redis.call('XADD', LOG, 'MAXLEN', '~', LOG_LENGTH, string.format('%.0f-0', change), 'i', value)
    touched[record.machine] = true
    row(record.machine).version = change
    if left then
      touched[left] = true
      row(left).version = change
    end
    if record.cluster and record.cluster ~= '' then cluster_row(record.cluster).version = change end
    if record.cluster_left then cluster_row(record.cluster_left).version = change end
  end
  for machine in pairs(touched) do
    local at = rows[machine]
    if at.count <= 0 then
      redis.call('HDEL', MACHINES, machine)
      at.version = 0
    else
      local parts = {string.format('%.0f %.0f %.0f', at.version, at.count, at.maxmemory)}
      for _, sum in ipairs(at.sums) do parts[#parts + 1] = string.format('%.0f', sum) end
      redis.call('HSET', MACHINES, machine, table.concat(parts, ' '))
    end
  end
  for field, count in pairs(masters) do
    if count > 0 then redis.call('HSET', MASTERS, field, string.format('%d', count)) else redis.call('HDEL', MASTERS, field) end
  end
  for field, owner in pairs(ports) do
    if owner ~= '' then redis.call('HSET', PORTS, field, owner) else redis.call('HDEL', PORTS, field) end
  end
  for cluster, members in pairs(clusters) do
    if members.count > 0 then
      redis.call('HSET', CLUSTERS, cluster, string.format('%.0f %.0f', members.version, members.count))
    else
      redis.call('HDEL', CLUSTERS, cluster)
      members.version = 0
    end
  end
  redis.call('HSET', HEAD, 'epoch', epoch, 'change', string.format('%.0f', change))
end

-- Expire what is due, at most so many, before anything is decided.
local function sweep(most)
  local due = redis.call('ZRANGEBYSCORE', EXPIRY, '-inf', stamp, 'LIMIT', 0, most)
  for _, id in ipairs(due) do
    local record = find(id)
    if record and record.state == 'reserved' then
      finish(record, 'expired', record.expires_at)
    else
      redis.call('ZREM', EXPIRY, id)
    end
  end
  commit(true)
  return #due
end

local function answer(results)
  commit()
  return {epoch, string.format('%.0f', before), written, results}
end

