--[[ Migrate a ledger of format 1 (no `format`), some records a script. Any number of scorers may do so at the same time,
and one continues where another stopped.

    open ──> "ready"                    (format 2, or no ledger: it is begun)
         └─> "migrating" ──> slice, slice, ... ──> close ──> "ready"

open puts a text in place of format 1's head. From then on each script of format 1 fails at its first command and each
scorer of that release says that it cannot read the ledger: its sums cannot change any more, and are made anew here from
the records. Scripts of format 2 answer LEDGERMIGRATING until every record is migrated.

KEYS[14] masters, KEYS[15] ports: what only format 1 has
ARGV[4] "open", "slice" or "close"; with "slice" three for each record:
  id; the record as it was read; the record in format 2

Result: {"ready"} or {"migrating"}. A record that is not as it was read was migrated by another scorer. ]]
local state = head[4] and 'migrating' or 'ready'
if ARGV[4] == 'open' and not head[1] then
  change = 0
  if redis.call('TYPE', CLOSED).ok == 'hash' then
    change = tonumber(redis.call('HGET', CLOSED, 'change') or '0')
    redis.call('DEL', CLOSED, MACHINES, CLUSTERS, COUNTS, KEYS[14], KEYS[15])
    redis.call('HSET', HEAD, 'migrating', '0')
    state = 'migrating'
  end
  epoch = stamp
  redis.call('SET', CLOSED, CLOSED_TEXT)
  redis.call('HSET', HEAD, 'format', FORMAT, 'epoch', epoch, 'change', string.format('%.0f', change))
elseif ARGV[4] == 'slice' and state == 'migrating' then
  local taken = 0
  for first = 5, #ARGV, 3 do
    local id, old, new = ARGV[first], ARGV[first + 1], ARGV[first + 2]
    if redis.call('HGET', INSTANCES, id) == old then
      local record = decode(new, id)
      redis.call('HSET', INSTANCES, id, new)
      hold(record, 1)
      local at, cluster = row(record.machine), record.cluster
      at.touched, at.version = true, math.max(at.version, record.version)
      if cluster and cluster ~= '' then cluster_row(cluster).version = math.max(cluster_row(cluster).version, record.version) end
      taken = taken + 1
    end
  end
  write_sums()
  redis.call('HINCRBY', HEAD, 'migrating', taken)
elseif ARGV[4] == 'close' and state == 'migrating' and tonumber(head[4]) == redis.call('HLEN', INSTANCES) then
  redis.call('HDEL', HEAD, 'migrating')
  state = 'ready'
end
return answer({state})
