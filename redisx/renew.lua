-- Renew: starts the lease of a reservation anew.
--
-- KEYS[1]   the record
-- ARGV[1]   owner token
-- ARGV[2]   details: the lines from label to kept_turn
-- ARGV[3]   fence
-- ARGV[4]   attempt
-- ARGV[5]   created, in microseconds
-- ARGV[6]   lease end that the owner last saw, in microseconds
-- ARGV[7]   lease in microseconds
-- ARGV[8]   life of the record in milliseconds
-- ARGV[9]   life of a dispatched record in milliseconds, 0 for the same
-- ARGV[10]  1 to mark the record as dispatched
-- ARGV[11]  1 to drop the evidence of an earlier owner first, with its fingerprint:
--           nothing has happened
-- ARGV[12]  the lines kept_job and kept_turn, or an empty string for what they were
--
-- Reply: { 'ok' | 'restored', the new lease end in microseconds } or { 'lost', 0 }.
--
-- Atomic, because a renewal that is late must not write over the owner that
-- took the key between the look and the write, and because a mark without a lease,
-- or a lease without its mark, would say what is not so.

local now = clock()
local old = read(KEYS[1])
local record, status

if old and old.status == 'pending' and old.owner == ARGV[1] then
  record, status = old, 'ok'
elseif not old and now < tonumber(ARGV[6]) then
  -- Nobody else can have had the key: the lease has not ended, the data is lost.
  record, status = claimed(claim_of(ARGV), nil, now), 'restored'
else
  return { 'lost', 0 }
end

record.status = 'pending'
if ARGV[11] == '1' and evidence(record) then
  record.dispatch, record.fingerprint = '', fingerprint_of(ARGV[2])
end
if ARGV[10] == '1' then mark(record, now) end
if ARGV[12] ~= '' then record.kept = ARGV[12] end
extend(KEYS[1], record, now, tonumber(ARGV[7]), ARGV[8], ARGV[9])
return { status, record.until_us }
