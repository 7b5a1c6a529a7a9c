-- Reserve: acquires a free key.
--
-- KEYS[1]  the record
-- ARGV[1]  owner token
-- ARGV[2]  details: the lines label, traceparent and fingerprint
-- ARGV[3]  lease in microseconds
-- ARGV[4]  life of the record in milliseconds
-- ARGV[5]  owner token of the completed or failed record that the caller could not
--          decode, or an empty string
-- ARGV[6]  fence of that record
-- ARGV[7]  life of a dispatched record in milliseconds, 0 for the same
-- ARGV[8]  1 when the reservation is dispatched from its first moment on
-- ARGV[9]  when the caller can find out what became of a dispatched reservation: how
--          long its owner has to settle it after its last write, in microseconds; else
--          an empty string
-- ARGV[10] the job that the caller is a turn of, or an empty string
-- ARGV[11] the number of the turn
--
-- Reply: { 1, lease left in microseconds, the new record } when acquired, else
-- { 0, time left in microseconds, the record that is in the way }, with 2 in the
-- place of 0 when this reserve made that record held.
--
-- Atomic, because two callers that look at a free key at once must not both
-- take it, because the fence, the attempt, the previous owner and the evidence of a
-- takeover belong to the record that is replaced, and because an owner that still
-- lives must not settle a record in the moment in which it becomes held.

local owner, lease, px, dispatched_px = ARGV[1], tonumber(ARGV[3]), ARGV[4], ARGV[7]
local seen_owner, seen_fence = ARGV[5], ARGV[6]
local settle = tonumber(ARGV[9]) -- nil when the caller does not recover
local now = clock()
local old = read(KEYS[1])
local mine = old and old.owner == owner

-- unreadable: of all callers that could not decode this very record, the first one
-- takes the key; the others find its reservation.
local function unreadable()
  return settled(old) and old.owner == seen_owner and old.fence == seen_fence
end

-- differs: fingerprints of different algorithms, or none, cannot be compared.
local function differs()
  local algorithm, digest = string.match(fingerprint_of(ARGV[2]), '^([^:]+):?(.*)$')
  local old_algorithm, old_digest = string.match(old.fingerprint, '^([^:]+):?(.*)$')
  return algorithm and algorithm == old_algorithm and digest ~= old_digest
end

-- ended says whether the owner of the record has had its time, or is an earlier turn of
-- this job that has left the key to a later completion.
local function ended()
  return over(old, now) or (old.status == 'pending' and old.kept ~= '' and ARGV[10] ~= ''
    and old.kept_job == ARGV[10] and tonumber(old.kept_turn) < tonumber(ARGV[11]))
end

-- unknown_outcome: nobody knows what became of the record, which is held, or
-- dispatched by an owner that has let its lease run out.
local function unknown_outcome()
  if old.status == 'held' then return not over(old, now) end
  return old.status == 'pending' and ended() and old.dispatch ~= ''
end

-- fate says what becomes of the record that is there: 'again' when it is this
-- acquisition's own, else 'taken', 'held' or 'kept'. A reserve that comes after its own
-- owner's release or result is a late one, and acquires nothing.
local function fate()
  if mine then return old.status == 'pending' and 'again' or 'kept' end
  if not old or old.status == 'released' then return 'taken' end
  if not unknown_outcome() then
    return (ended() or unreadable()) and 'taken' or 'kept'
  end
  if differs() then return 'kept' end
  if settle and now >= old.updated_us + settle then return 'taken' end
  return old.status == 'pending' and 'held' or 'kept'
end

-- take_over makes the record remember whom it takes over from, and what may have
-- happened already: it is that run, with its input, which is in question then.
local function take_over(record)
  record.previous = 'prev_owner=' .. old.owner .. '\nprev_fence=' .. old.fence
    .. '\nprev_label=' .. old.label .. '\nprev_traceparent=' .. old.traceparent .. '\n'
  record.dispatch = old.dispatch
  if old.dispatch ~= '' then
    record.fingerprint = old.fingerprint
  end
end

local verdict = fate()
if verdict == 'kept' then
  return { 0, left(KEYS[1], old, now), old.raw }
end
if verdict == 'held' then
  -- Still its dispatcher's, last written by it, for as long as it wanted.
  old.status, old.until_us = 'held', now + remaining(KEYS[1])
  local raw = write(KEYS[1], old, old.updated_us, nil)
  return { 2, left(KEYS[1], old, now), raw }
end

local record = old -- 'again': the reply to this acquisition was lost
if verdict == 'taken' then
  record = {
    status = 'pending', owner = owner, fence = next_fence(old, now),
    attempt = decimal((old and tonumber(old.attempt) or 0) + 1), created_us = decimal(now),
  }
  details_at(record, ARGV[2], 1)
  if old and (old.status == 'pending' or unknown_outcome()) then take_over(record) end
end
if ARGV[8] == '1' then mark(record, now) end
local raw = extend(KEYS[1], record, now, lease, px, dispatched_px)
return { 1, record.until_us - now, raw }
