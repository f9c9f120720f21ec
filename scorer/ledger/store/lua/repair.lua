--[[ Replace the sums and counts of one machine, or the count of one cluster, by those of its instances; or write one
instance again as it is, so that a reservation and a move end in time.

ARGV[4] number of the lease `check`: an older one is refused
ARGV[5] "machine", "cluster" or "instance"
ARGV[6] its name
ARGV[7] its row as it was read ("": none; an instance has none)
ARGV[8] of a machine: the sums, "class:name=amount,... class:..."; of a cluster: how many instances it has
ARGV[9] id of one of its instances ("": it has none): written again as it is, so that every scorer sees a new version
ARGV[10] that record's version
ARGV[11...] of a machine, three for each count: what; the count as it was read ("": none); the count

Result: "done", "changed" (something is not as it was read: check it again) or "fenced". ]]
local kind, name, id = ARGV[5], ARGV[6], ARGV[9]
if is_fenced('check', ARGV[4]) then return answer('fenced') end
local key = kind == 'machine' and MACHINES or CLUSTERS
if kind ~= 'instance' and (redis.call('HGET', key, name) or '') ~= ARGV[7] then return answer('changed') end
for first = 11, #ARGV, 3 do
  if (redis.call('HGET', COUNTS, name .. ' ' .. ARGV[first]) or '') ~= ARGV[first + 1] then return answer('changed') end
end
local record
if id ~= '' then
  local value = redis.call('HGET', INSTANCES, id)
  record = value and decode(value, id)
  if not record or record.version ~= tonumber(ARGV[10]) then return answer('changed') end
end
if kind == 'machine' then
  row(name, '0 ' .. ARGV[8]).touched = true
  for first = 11, #ARGV, 3 do counts[name .. ' ' .. ARGV[first]] = tonumber(ARGV[first + 2]) end
elseif kind == 'cluster' then
  clusters[name] = {version = 0, count = tonumber(ARGV[8])}
end
if record then
  changed(record)
else
  write_sums()
end
return answer('done')
