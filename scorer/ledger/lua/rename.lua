--[[ A machine has another name: all its instances are there from now on, as they were but for the machine.

ARGV[4] the name so far
ARGV[5] the new name
ARGV[6] version of the machine as its instances were read (0: it held none)
ARGV[7...] the ids of its instances

Each record keeps its generation, times and state; its version rises, so every follower sees the change, and its entry
of the log says the name so far in a second field, `renamed`. Instances that the new name holds already stay.

Result: "done", or "changed" (the machine is not as it was read: read it again). ]]
sweep(SWEEP_MAX)
local from, to = ARGV[4], ARGV[5]
local ids = {}
for position = 7, #ARGV do ids[#ids + 1] = ARGV[position] end
local found = fetch(ids)
if row(from).version ~= tonumber(ARGV[6]) then return answer('changed') end
for _, id in ipairs(ids) do
  local record = found[id]
  if not record or not is_live(record) or record.machine ~= from then return answer('changed') end
end
for _, id in ipairs(ids) do
  local old = found[id]
  local new = {}
  for name, value in pairs(old) do new[name] = value end
  new.machine, new.renamed, new.value = to, from, nil
  hold(old, -1)
  hold(new, 1)
  changed(new, old)
end
return answer('done')
