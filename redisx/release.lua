-- Release: turns the owner's reservation into a tombstone.
--
-- KEYS[1]  the record
-- ARGV[1]  owner token
-- ARGV[2]  details: the lines from label to prev_traceparent
-- ARGV[3]  fence
-- ARGV[4]  attempt
-- ARGV[5]  created, in microseconds
-- ARGV[6]  lease in microseconds: the life of the tombstone
-- ARGV[7]  life of the record in milliseconds
--
-- Reply: { 1 } when the key was the owner's and is given back, now or by an
-- earlier release of the same owner, else { 0 }.
--
-- Atomic, because a release that is late must not free the key of the owner that
-- took it. A missing record becomes a tombstone too: a reserve of the same owner
-- that is still on its way finds it and acquires nothing.

local now = clock()
local old = read(KEYS[1])
local record, released

if not old then
  record, released = claimed(claim_of(ARGV), nil, now), 0
elseif old.owner ~= ARGV[1] or old.status == 'completed' then
  return { 0 }
elseif old.status == 'released' then
  return { 1 }
else
  record, released = old, 1
end

record.status = 'released'
record.until_us = now + tonumber(ARGV[6])
write(KEYS[1], record, now, ARGV[7])
return { released }
