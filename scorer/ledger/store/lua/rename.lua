--[[ Rename a machine: all its instances get the new name, and stay as they are otherwise.

ARGV[5] the old name
ARGV[6] the new name
ARGV[7] version of the machine as its instances were read (0: it had none)
ARGV[8...] the ids of its instances, those that are moving to it among them

Each record keeps its generation, times and state; its version rises, so every follower sees the change, and its entry
of the log has the old name in a second field, `renamed`. Instances under the new name stay. A move between the two
names ends: they are one machine.

Result: "done", or "changed" (the machine is not as it was read: read it again). ]]
local OLD_NAME = ARGV[5]
local NEW_NAME = ARGV[6]
local VERSION = ARGV[7]
local FIRST = 8
sweep(SWEEP_MAX)
local ids = {}
for position = FIRST, #ARGV do ids[#ids + 1] = ARGV[position] end
local found = fetch(ids)
if row(OLD_NAME).version ~= tonumber(VERSION) then return answer('changed') end
for _, id in ipairs(ids) do
  local record = found[id]
  local moving = record and record.moving
  local here = record and is_live(record) and (record.machine == OLD_NAME or (moving and moving.to == OLD_NAME))
  if not here then return answer('changed') end
end
for _, id in ipairs(ids) do
  local old = found[id]
  local new = copy_of(old)
  new.renamed = OLD_NAME
  if new.machine == OLD_NAME then new.machine = NEW_NAME end
  if new.moving then
    new.moving = copy_of(new.moving)
    if new.moving.to == OLD_NAME then new.moving.to = NEW_NAME end
    if new.moving.to == new.machine then new.moving = nil end
  end
  hold(old, -1)
  hold(new, 1)
  changed(new, old)
end
far = nil -- their rules hold at another machine now
return answer('done')
