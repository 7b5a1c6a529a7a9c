-- Erase: forgets a key.
--
-- KEYS[1]  the record
-- ARGV[1]  life of the tombstone in microseconds
-- ARGV[2]  the same in milliseconds
--
-- Reply: { 1 } when the key has no result now, else { 0, time left in
-- microseconds, the record that is in the way }.
--
-- Atomic, because a reservation that comes between the look and the deletion
-- must not be dropped.

local now = clock()
local old = read(KEYS[1])

-- in_the_way: nobody erases what is in use, or the only word that something may have
-- happened.
local function in_the_way()
  if old.status == 'pending' then return not over(old, now) or old.dispatch ~= '' end
  return old.status == 'unknown' or (old.status == 'held' and not over(old, now))
end

if old and in_the_way() then
  return { 0, left(KEYS[1], old, now), old.raw }
end
if old and not (old.status == 'released' and not over(old, now)) then
  -- Of the record the tombstone keeps what a late write of its owner is known by.
  write(KEYS[1], {
    status = 'released', owner = old.owner, fence = old.fence, attempt = old.attempt,
    until_us = now + tonumber(ARGV[1]), created_us = decimal(now),
    label = '', traceparent = '', fingerprint = '', previous = '', dispatch = '', resolved = '',
  }, now, ARGV[2])
end
return { 1 }
