-- Reserve: acquires a free key.
--
-- KEYS[1]  the record
-- ARGV[1]  owner token
-- ARGV[2]  details: the lines label, traceparent and fingerprint
-- ARGV[3]  lease in microseconds
-- ARGV[4]  life of the record in milliseconds
-- ARGV[5]  owner token of the completed record that the caller could not decode,
--          or an empty string
-- ARGV[6]  fence of that record
--
-- Reply: { 1, lease left in microseconds, the new record } when acquired, else
-- { 0, time left in microseconds, the record that is in the way }.
--
-- Atomic, because two callers that look at a free key at once must not both
-- take it, and because the fence, the attempt and the previous owner of a
-- takeover belong to the record that is replaced.

local owner, details, lease, px = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local seen_owner, seen_fence = ARGV[5], ARGV[6]
local now = clock()
local old = read(KEYS[1])
local mine = old and old.owner == owner

-- unreadable: of all callers that could not decode this very record, the first one
-- takes the key; the others find its reservation.
local function unreadable()
  return old.status == 'completed' and old.owner == seen_owner and old.fence == seen_fence
end

-- in_the_way: a reserve that comes after its own owner's release or result is a
-- late one, and acquires nothing.
local function in_the_way()
  if not old then return false end
  if mine then return old.status ~= 'pending' end
  return old.status ~= 'released' and not over(old, now) and not unreadable()
end

-- previous is what a takeover remembers of the owner it takes over from.
local function previous()
  if not old or old.status ~= 'pending' then return '' end
  return 'prev_owner=' .. old.owner .. '\nprev_fence=' .. old.fence
    .. '\nprev_label=' .. old.label .. '\nprev_traceparent=' .. old.traceparent .. '\n'
end

if in_the_way() then
  return { 0, left(KEYS[1], old, now), old.raw }
end

local record
if mine and old.status == 'pending' then
  record = old -- the same acquisition once more: its reply was lost
else
  record = {
    status = 'pending', owner = owner, fence = next_fence(old, now),
    attempt = decimal((old and tonumber(old.attempt) or 0) + 1),
    created_us = decimal(now), details = details .. previous(),
  }
end
local raw = hold(KEYS[1], record, now, lease, px)
return { 1, record.until_us - now, raw }
