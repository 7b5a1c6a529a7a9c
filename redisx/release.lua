-- Release: turns the owner's reservation, or its held record, into a tombstone. A
-- reservation that carries the evidence of another owner becomes that one's held
-- record again; to that one it is as its own.
--
-- KEYS[1]  the record
-- ARGV[1]  owner token
-- ARGV[2]  details: the lines from label to kept_turn
-- ARGV[3]  fence
-- ARGV[4]  attempt
-- ARGV[5]  created, in microseconds
-- ARGV[6]  lease in microseconds: the life of the tombstone
-- ARGV[7]  life of the record in milliseconds
--
-- Reply: { 1 } when the key was the owner's and is given back, now or by an
-- earlier release of the same owner, { 2 } when it is given back as a held record,
-- else { 0 }.
--
-- Atomic, because a release that is late must not free the key of the owner that
-- took it. A missing record becomes a tombstone too: a reserve of the same owner
-- that is still on its way finds it and acquires nothing.

local now = clock()
local old = read(KEYS[1])
local record, released

if not old then
  record, released = claimed(claim_of(ARGV), nil, now), 0
elseif asks(old, ARGV[1]) then
  record, released = claimed(claim_of(ARGV), old, now), 1
elseif old.owner ~= ARGV[1] or settled(old) then
  return { 0 }
elseif old.status == 'released' then
  return { 1 }
elseif evidence(old) then
  give_back(KEYS[1], old, now, remaining(KEYS[1]), nil)
  return { 2 }
else
  record, released = old, 1
end

record.status, record.dispatch = 'released', ''
record.until_us = now + tonumber(ARGV[6])
write(KEYS[1], record, now, ARGV[7])
return { released }
