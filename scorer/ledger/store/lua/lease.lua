--[[ Take, keep or give up a lease: it is held for work that only one daemon may do at a time.

It stands alone, without ledger.lua, and writes this key only: a daemon that proposes and changes no instance needs no
right to write one.

KEYS[1] leases (ledger.lua, KEYS[10])
ARGV[1] name of the lease
ARGV[2] the holder that asks
ARGV[3] for how many seconds; 0 gives it up

Result: {"held", number} or {"elsewhere", holder}. The number rises by one whenever the lease changes hands, and when a
holder takes it again after it had run out. A script that is given an older number refuses to write (is_fenced): its
caller was frozen, or cut off, and another has taken its place. ]]
local LEASES = KEYS[1]
local NAME = ARGV[1]
local HOLDER = ARGV[2]
local LASTS_S = ARGV[3]
local LASTS_S_MAX = 1e7
local DIGITS_MAX = 15
local time = CLOCK
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local found = redis.call('HMGET', LEASES, NAME .. ' number', NAME .. ' holder', NAME .. ' until')
-- A number that cannot be read is followed by one that none has counted to: the time.
local said, until_s = found[1] or '0', tonumber(found[3] or '') or 0
local number = #said <= DIGITS_MAX and string.match(said, '^%d+$') and tonumber(said) or math.floor(now)
local held = found[2] and until_s > now and until_s < now + LASTS_S_MAX
if held and found[2] ~= HOLDER then return {'elsewhere', found[2]} end
if not held then number = number + 1 end
redis.call('HSET', LEASES, NAME .. ' number', string.format('%.0f', number), NAME .. ' holder', HOLDER,
  NAME .. ' until', string.format('%.6f', now + tonumber(LASTS_S)))
return {'held', string.format('%.0f', number)}
