-- Hold: makes the owner's reservation a held record, of whoever dispatched it.
--
-- KEYS[1]  the record
-- ARGV[1]  owner token
-- ARGV[2]  details: the lines from label to resolved_traceparent
-- ARGV[3]  fence
-- ARGV[4]  attempt
-- ARGV[5]  created, in microseconds
-- ARGV[6]  life of the held record in microseconds
-- ARGV[7]  the same in milliseconds
--
-- Reply: { 'held' | 'restored' | 'refused' }.
--
-- Atomic, because a hold that is late must not block the key of the owner that
-- took it, and because the evidence belongs to the record that is held.

local now = clock()
local old = read(KEYS[1])
local mine = old and old.owner == ARGV[1]
local record, status

if mine and (old.status == 'pending' or old.status == 'held') then
  record, status = old, 'held'
elseif not old or (not mine and vacant(old, now)) then
  record, status = claimed(claim_of(ARGV), old, now), 'restored'
else
  return { 'refused' }
end

mark(record, now)
give_back(KEYS[1], record, now, tonumber(ARGV[6]), ARGV[7])
return { status }
