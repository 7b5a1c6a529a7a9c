-- Erase: forgets a key.
--
-- KEYS[1]  the record
--
-- Reply: { 1 } when the key has no result now, else { 0, time left in
-- microseconds, the record that is in the way }.
--
-- Atomic, because a reservation that comes between the look and the deletion
-- must not be dropped.

local now = clock()
local old = read(KEYS[1])
if old and (old.status == 'unknown' or (old.status == 'pending' and not over(old, now))) then
  return { 0, left(KEYS[1], old, now), old.raw }
end
if not (old and old.status == 'released' and not over(old, now)) then
  redis.call('DEL', KEYS[1]) -- a live tombstone stays: its owner's late write must find it
end
return { 1 }
