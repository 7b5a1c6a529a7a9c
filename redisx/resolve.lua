-- Resolve: settles a held record or a reservation in its owner's stead.
--
-- KEYS[1]   the record
-- ARGV[1]   fence of the record that was seen
-- ARGV[2]   token of who settles it
-- ARGV[3]   its label
-- ARGV[4]   its traceparent
-- ARGV[5]   completed, failed or released
-- ARGV[6]   1 to settle also while the owner's lease runs
-- ARGV[7]   retention, or life of the tombstone, in microseconds
-- ARGV[8]   life of the record in milliseconds
-- ARGV[9]   encoding
-- ARGV[10]  result
--
-- Reply: { 1, time left in microseconds, the record, 1 when it is settled by this
-- token else 0 }, or { 0 } when there is no record.
--
-- Atomic, because what was seen must still be there when it is settled: an owner
-- that comes back settles it itself, and of two that resolve one is too late.

local old = read(KEYS[1])
if not old then return { 0 } end
local now = clock()
local again = old.resolver == ARGV[2] and old.status == ARGV[5] -- the reply to the first time was lost
local open = old.status == 'pending' or old.status == 'held'
local live = old.status == 'pending' and not over(old, now)
if again or not open or (live and ARGV[6] ~= '1') or tonumber(old.fence) ~= tonumber(ARGV[1]) then
  return { 1, left(KEYS[1], old, now), old.raw, again and 1 or 0 }
end

old.status, old.fence, old.dispatch = ARGV[5], next_fence(old, now), ''
old.resolved = 'resolved_owner=' .. ARGV[2] .. '\nresolved_label=' .. ARGV[3]
  .. '\nresolved_traceparent=' .. ARGV[4] .. '\n'
old.until_us = now + tonumber(ARGV[7])
local raw = write(KEYS[1], old, now, ARGV[8], ARGV[9], ARGV[10])
return { 1, left(KEYS[1], old, now), raw, 1 }
