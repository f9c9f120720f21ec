--[[ Correct the ledger by an inventory: instances are put on the machines where it found them, whatever the limits. An
instance written this way is not moving. A record that cannot be read counts as none: it is written anew. One with rules
may tie other machines, so what was decided before it came is decided again (`far`).

ARGV[5] name of the lease under which the inventory was made ("": none)
ARGV[6] its number: an older one is refused
ARGV[7] the cluster of Kubernetes whose inventory it is ("": any instance): what is live without its label is of another
ARGV[8...] six for each instance:
  "set" or "end"; id; with "set" the machine; the record's tail; when it started, epoch seconds ("": as it is known of one
  that stayed, else now); never later than now; its generation, where it is not live ("": a new one)

Result: {"done", "unknown" or "other" (it is of another, and stays as it is), ...} in order, or "fenced". ]]
local LEASE = ARGV[5]
local LEASE_NUMBER = ARGV[6]
local CLUSTER = ARGV[7]
local FIRST = 8
local EACH = 6
local ID = 1
local MACHINE = 2
local TAIL = 3
local STARTED_AT = 4
local GENERATION = 5
if LEASE ~= '' and is_fenced(LEASE, LEASE_NUMBER) then return answer('fenced') end
sweep(SWEEP_MAX)
local results, ids = {}, {}
for at = FIRST, #ARGV, EACH do ids[#ids + 1] = ARGV[at + ID] end
local found = fetch(ids, true)
for at = FIRST, #ARGV, EACH do
  local id = ARGV[at + ID]
  local record = found[id]
  local live = record and is_live(record)
  record = record or ended_record(id)
  local labels = live and record.labels
  if live and CLUSTER ~= '' and (type(labels) ~= 'table' or labels.kubernetes ~= CLUSTER) then
    results[#results + 1] = 'other'
  elseif ARGV[at] == 'end' then
    if live then finish(record, 'released', now) end
    results[#results + 1] = record and 'done' or 'unknown'
  else
    local machine, tail = ARGV[at + MACHINE], ARGV[at + TAIL]
    local new = cjson.decode('{' .. tail .. '}')
    new.tail, new.id, new.machine, new.state, new.expires_at, new.ended_at = tail, id, machine, 'confirmed', 0, 0
    local stayed = live and record.machine == machine
    new.reserved_at = live and record.reserved_at or now
    local started_at = tonumber(ARGV[at + STARTED_AT]) or stayed and record.started_at > 0 and record.started_at or now
    new.started_at = math.min(started_at, now)
    if live then
      new.generation = record.generation
      hold(record, -1)
    else
      new.new, new.revived, new.generation = true, record, tonumber(ARGV[at + GENERATION])
    end
    if new.rules and new.rules ~= cjson.null then far = nil end
    hold(new, 1)
    changed(new, live and record or nil)
    found[id] = new
    results[#results + 1] = 'done'
  end
end
return answer(results)
