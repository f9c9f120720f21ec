--[[ Replace the sums and counts of one machine, or the count of one cluster, by those of its instances; or write one
instance again as it is, so that a reservation and a move end in time; or replace a record that cannot be read. A record
under another id goes to its own, unless that has one.

ARGV[5] number of the lease `check`: an older one is refused
ARGV[6] "machine", "cluster", "instance" or "record"
ARGV[7] its name
ARGV[8] its row, or the record, as it was read ("": none; an instance has none)
ARGV[9] of a machine: the sums, "class:name=amount,... class:..."; of a record: the one that the log has
ARGV[10] of a cluster: how many instances it has
ARGV[11] id of one of its instances ("": it has none): written again as it is, so that every scorer sees a new version
ARGV[12] that record's version
ARGV[13...] of a machine, three for each count: what; the count as it was read ("": none); the count

Result: "done", "changed" (something is not as it was read: check it again) or "fenced". ]]
local LEASE_NUMBER = ARGV[5]
local KIND = ARGV[6]
local NAME = ARGV[7]
local ROW_READ = ARGV[8]
local SUMS = ARGV[9]
local MEMBERS = ARGV[10]
local ID = ARGV[11]
local VERSION = ARGV[12]
local FIRST = 13
local EACH = 3
local COUNT_READ = 1
local TRUE_COUNT = 2
if is_fenced('check', LEASE_NUMBER) then return answer('fenced') end
local key = KIND == 'machine' and MACHINES or KIND == 'record' and INSTANCES or CLUSTERS
if KIND ~= 'instance' and (redis.call('HGET', key, NAME) or '') ~= ROW_READ then return answer('changed') end
for at = FIRST, #ARGV, EACH do
  if (redis.call('HGET', COUNTS, NAME .. ' ' .. ARGV[at]) or '') ~= ARGV[at + COUNT_READ] then return answer('changed') end
end
local record
if ID ~= '' then
  local value = redis.call('HGET', INSTANCES, ID)
  record = value and readable(value, ID)
  if not record or record.version ~= tonumber(VERSION) then return answer('changed') end
end
if KIND == 'record' then
  local own = cjson.decode(SUMS).id
  if own ~= NAME then redis.call('HDEL', INSTANCES, NAME) end
  if own ~= NAME and redis.call('HEXISTS', INSTANCES, own) == 1 then return answer('done') end
  record, far = decode(SUMS, own), nil -- nothing has looked at its rules while it was torn
elseif KIND == 'machine' then
  row(NAME, '0 ' .. SUMS).touched = true
  for at = FIRST, #ARGV, EACH do counts[NAME .. ' ' .. ARGV[at]] = tonumber(ARGV[at + TRUE_COUNT]) end
elseif KIND == 'cluster' then
  clusters[NAME] = {version = 0, count = tonumber(MEMBERS)}
end
if record then
  changed(record)
else
  write_sums()
end
return answer('done')
