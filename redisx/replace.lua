-- Replace: stores the result in the place of the reservation.
--
-- KEYS[1]   the record
-- ARGV[1]   owner token
-- ARGV[2]   details: the lines from label to kept_turn
-- ARGV[3]   fence
-- ARGV[4]   attempt
-- ARGV[5]   created, in microseconds
-- ARGV[6]   retention in microseconds
-- ARGV[7]   life of the record in milliseconds
-- ARGV[8]   encoding
-- ARGV[9]   result
-- ARGV[10]  1 when the result is an error
--
-- Reply: { 'stored' | 'restored' | 'settled' | 'stale' }.
--
-- Atomic, because a result that is late must not write over the owner that took
-- the key, over its result, over what somebody else has settled, or over its own result, which
-- others may have.

local now = clock()
local old = read(KEYS[1])
local mine = old and old.owner == ARGV[1]
local record, status

-- free: what an operator has released stays so to all who had the key before.
local function free()
  return not mine and (vacant(old, now) or asks(old, ARGV[1])) and not (old.status == 'released' and old.resolver)
end

if mine and not old.resolver and (old.status == 'completed' or old.status == 'failed') and old.until_us > now then
  return { 'settled' }
elseif mine and old.status ~= 'released' and not old.resolver then
  record, status = old, 'stored'
elseif not old or free() then
  record, status = claimed(claim_of(ARGV), old, now), 'restored'
else
  return { 'stale' }
end

record.status = ARGV[10] == '1' and 'failed' or 'completed'
record.dispatch = ''
record.until_us = now + tonumber(ARGV[6])
write(KEYS[1], record, now, ARGV[7], ARGV[8], ARGV[9])
return { status }
