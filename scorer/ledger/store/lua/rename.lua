--[[ Rename a machine: all its instances get the new name, and stay as they are otherwise.

ARGV[4] the old name
ARGV[5] the new name
ARGV[6] version of the machine as its instances were read (0: it had none)
ARGV[7...] the ids of its instances, those that are moving to it among them

Each record keeps its generation, times and state; its version rises, so every follower sees the change, and its entry
of the log has the old name in a second field, `renamed`. Instances under the new name stay. A move between the two
names ends: they are one machine.

Result: "done", or "changed" (the machine is not as it was read: read it again). ]]
sweep(SWEEP_MAX)
local from, to = ARGV[4], ARGV[5]
local ids = {}
for position = 7, #ARGV do ids[#ids + 1] = ARGV[position] end
local found = fetch(ids)
if row(from).version ~= tonumber(ARGV[6]) then return answer('changed') end
for _, id in ipairs(ids) do
  local record = found[id]
  local here = record and is_live(record) and (record.machine == from or (record.moving and record.moving.to == from))
  if not here then return answer('changed') end
end
for _, id in ipairs(ids) do
  local old = found[id]
  local new = copy_of(old)
  new.renamed = from
  if new.machine == from then new.machine = to end
  if new.moving then
    new.moving = copy_of(new.moving)
    if new.moving.to == from then new.moving.to = to end
    if new.moving.to == new.machine then new.moving = nil end
  end
  hold(old, -1)
  hold(new, 1)
  changed(new, old)
end
return answer('done')
