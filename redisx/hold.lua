-- Hold: makes the owner's reservation a held record, of whoever dispatched it.
--
-- KEYS[1]  the record
-- ARGV[1]  owner token
-- ARGV[2]  details: the lines from label to kept_turn
-- ARGV[3]  fence
-- ARGV[4]  attempt
-- ARGV[5]  created, in microseconds
-- ARGV[6]  life of the held record in microseconds
-- ARGV[7]  the same in milliseconds
-- ARGV[8]  lease end that the owner last saw, in microseconds
--
-- Reply: { 'held' | 'again' | 'restored' | 'refused' }.
--
-- Atomic, because a hold that is late must not block the key of the owner that
-- took it, and because the evidence belongs to the record that is held.

local now = clock()
local old = read(KEYS[1])
local mine = old and old.owner == ARGV[1]
local claim = claimed(claim_of(ARGV), nil, now)
local record, status

-- free: what another has resolved stays so, and an owner that carries another's
-- evidence does not know what became of it since.
local function free()
  if not old then return not evidence(claim) or now < tonumber(ARGV[8]) end
  return vacant(old, now) and not mine and not old.resolver and not evidence(claim)
end

if old and old.status == 'held' and (mine or old.owner == claim.dispatch_owner) then
  record, status = old, 'again'
elseif mine and old.status == 'pending' then
  record, status = old, 'held'
elseif free() then
  record, status = claimed(claim_of(ARGV), old, now), 'restored'
else
  return { 'refused' }
end

mark(record, now)
give_back(KEYS[1], record, now, tonumber(ARGV[6]), ARGV[7])
return { status }
