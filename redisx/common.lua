-- Helpers of every script: this text is put in front of each when it is loaded,
-- behind a line that sets VERSION, the version of the record layout.

-- The largest integer that a Lua number holds exactly, 2^53 - 1.
local LIMIT = 9007199254740991

-- The header of a record. Every line is anchored to the one before it and no
-- value holds a newline, so nothing that a user writes can pass for a header.
local HEADER = '^onceguard/(%d+) (%l+)\n'
  .. 'owner=([^\n]*)\nfence=(%d+)\nattempt=(%d+)\n'
  .. 'until_us=(%d+)\ncreated_us=(%d+)\nupdated_us=(%d+)\n()'
local DETAILS = '^label=([^\n]*)\ntraceparent=([^\n]*)\nfingerprint=([^\n]*)\n()'
local PREVIOUS = '^prev_owner=[^\n]*\nprev_fence=(%d+)\nprev_label=[^\n]*\nprev_traceparent=[^\n]*\n()'
local DISPATCH = '^dispatch_owner=([^\n]*)\ndispatch_fence=(%d+)\ndispatch_us=(%d+)\n'
  .. 'dispatch_label=([^\n]*)\ndispatch_traceparent=([^\n]*)\n()'
local RESOLVED = '^resolved_owner=([^\n]*)\nresolved_label=[^\n]*\nresolved_traceparent=[^\n]*\n()'
local KEPT = '^kept_job=([^\n]*)\nkept_turn=(%d+)\n()'
local TAIL = '^encoding=[^\n]*\n\n'

local STATUS = { pending = true, completed = true, failed = true, held = true, released = true }

-- clock is the server's time in microseconds.
local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- decimal writes an integer with all its digits; tostring loses some above 1e14.
local function decimal(number)
  return string.format('%.0f', math.min(number, LIMIT))
end

local function exact(...)
  for i = 1, select('#', ...) do
    if tonumber((select(i, ...))) > LIMIT then return false end
  end
  return true
end

-- readable says whether this code knows a version: its own and those before it.
local function readable(version)
  return string.match(version, '^[1-9]%d?%d?$') and tonumber(version) <= VERSION
end

-- details_at reads the lines from label on into a record and returns the position past
-- them, or nil when they are not as a client writes them.
local function details_at(record, raw, at)
  local label, traceparent, fingerprint, past = string.match(raw, DETAILS, at)
  if not past then return nil end
  record.label, record.traceparent, record.fingerprint = label, traceparent, fingerprint
  record.previous, record.dispatch, record.resolved, record.kept = '', '', '', ''
  if string.find(raw, '^encoding=', past) then return past end -- most records have no more

  local previous_fence, next = string.match(raw, PREVIOUS, past)
  if next then
    if not exact(previous_fence) then return nil end
    record.previous, past = string.sub(raw, past, next - 1), next
  end
  local owner, fence, us, owner_label, owner_traceparent, next = string.match(raw, DISPATCH, past)
  if next then
    if not exact(fence, us) then return nil end
    record.dispatch, past = string.sub(raw, past, next - 1), next
    record.dispatch_owner, record.dispatch_label, record.dispatch_traceparent = owner, owner_label, owner_traceparent
    record.dispatch_us = us
  end
  local resolver, next = string.match(raw, RESOLVED, past)
  if next then
    record.resolved, record.resolver, past = string.sub(raw, past, next - 1), resolver, next
  end
  local job, turn, next = string.match(raw, KEPT, past)
  if next then
    if not exact(turn) then return nil end
    record.kept, past = string.sub(raw, past, next - 1), next
    record.kept_job, record.kept_turn = job, turn
  end
  return past
end

-- parse reads a record. What it does not understand, such as a version that is
-- newer, has the status 'unknown': nobody may write over it. Neither may anybody over
-- a held record that does not say who dispatched it.
local function parse(raw)
  local unknown = { raw = raw, status = 'unknown' }
  local version, status, owner, fence, attempt, until_us, created_us, updated_us, past = string.match(raw, HEADER)
  if not STATUS[status] or not readable(version) or not exact(fence, attempt, until_us, created_us, updated_us) then
    return unknown
  end
  local record = {
    raw = raw, status = status, owner = owner, fence = fence, attempt = attempt,
    until_us = tonumber(until_us), created_us = created_us, updated_us = tonumber(updated_us),
    label = '', traceparent = '', fingerprint = '', previous = '', dispatch = '', resolved = '', kept = '', -- follow
  }
  past = details_at(record, raw, past)
  if not past or not string.match(raw, TAIL, past) or (status == 'held' and record.dispatch == '') then
    return unknown
  end
  return record
end

-- read returns the record under the key, or nil. A value that is no string is
-- not ours to understand either.
local function read(key)
  local raw = redis.pcall('GET', key)
  if not raw then return nil end
  if type(raw) == 'string' then return parse(raw) end
  if not string.find(raw.err or '', 'WRONGTYPE', 1, true) then
    redis.call('GET', key) -- fails as it did, in the server's own words
  end
  return parse('')
end

-- write stores a record and returns its text. It always has an expiry: px, or the
-- one that the key has when px is nil. Only a reservation is kept for a completion.
local function write(key, record, updated_us, px, encoding, result)
  local raw = table.concat({
    'onceguard/', VERSION, ' ', record.status,
    '\nowner=', record.owner, '\nfence=', record.fence, '\nattempt=', record.attempt,
    '\nuntil_us=', decimal(record.until_us), '\ncreated_us=', record.created_us,
    '\nupdated_us=', decimal(updated_us),
    '\nlabel=', record.label, '\ntraceparent=', record.traceparent, '\nfingerprint=', record.fingerprint, '\n',
    record.previous, record.dispatch, record.resolved, record.status == 'pending' and record.kept or '',
    'encoding=', encoding or '', '\n\n', result or '',
  })
  if px then
    redis.call('SET', key, raw, 'PX', px)
  else
    redis.call('SET', key, raw, 'KEEPTTL')
  end
  return raw
end

-- extend writes a reservation whose lease runs from now and never ends earlier than
-- it did: a renewal that comes late must not undo a longer one. One that is
-- dispatched lives the longer of the two lives.
local function extend(key, record, now, lease, px, dispatched_px)
  local until_us = now + lease
  record.until_us = math.max(record.until_us or 0, until_us)
  local longer = math.ceil((record.until_us - until_us) / 1000)
  local life = tonumber(px)
  if record.dispatch ~= '' then
    life = math.max(life, tonumber(dispatched_px))
  end
  return write(key, record, now, decimal(life + longer))
end

-- over says whether the record's time has run out.
local function over(record, now)
  return record.status ~= 'unknown' and now >= record.until_us
end

-- settled says whether the record tells how it ended.
local function settled(record)
  return record.status == 'completed' or record.status == 'failed'
end

-- vacant says whether a result or a hold of an owner without a reservation may take
-- the place of the record.
local function vacant(record, now)
  return record.status == 'released'
    or (over(record, now) and (record.status ~= 'pending' or record.dispatch == ''))
end

-- left is the time until the record's end, or until the server drops it when
-- nobody can read that end.
local function left(key, record, now)
  if record.status == 'unknown' then
    return math.max(redis.call('PTTL', key), 0) * 1000
  end
  return math.max(record.until_us - now, 0)
end

-- next_fence grows with every acquisition, also when the clock does not.
local function next_fence(old, now)
  return decimal(math.max((old and tonumber(old.fence) or 0) + 1, now))
end

-- mark makes the record dispatched by its owner, unless it is dispatched.
local function mark(record, now)
  if record.dispatch ~= '' then return end
  record.dispatch = 'dispatch_owner=' .. record.owner .. '\ndispatch_fence=' .. record.fence
    .. '\ndispatch_us=' .. decimal(now) .. '\ndispatch_label=' .. record.label
    .. '\ndispatch_traceparent=' .. record.traceparent .. '\n'
  record.dispatch_owner, record.dispatch_label, record.dispatch_traceparent =
    record.owner, record.label, record.traceparent
  record.dispatch_us = decimal(now)
end

-- evidence says whether somebody else may have had the effect.
local function evidence(record)
  return record.dispatch ~= '' and record.dispatch_owner ~= record.owner
end

-- asks says whether the record is that of an owner who had yet to find out what this
-- one did: the word of this one settles it.
local function asks(record, owner)
  return (record.status == 'pending' or record.status == 'held')
    and evidence(record) and record.dispatch_owner == owner
end

-- give_back writes a held record, as that of whoever dispatched it, for a life or, when
-- px is nil, for what is left of the key's. Of an acquisition that is over nothing is
-- known but that.
local function give_back(key, record, now, life, px)
  record.status = 'held'
  if evidence(record) then
    record.created_us, record.previous = record.dispatch_us, ''
  end
  record.owner, record.label, record.traceparent =
    record.dispatch_owner, record.dispatch_label, record.dispatch_traceparent
  record.until_us = now + life
  return write(key, record, now, px)
end

-- remaining is how long the server still keeps the key, in microseconds.
local function remaining(key)
  local ms = redis.call('PTTL', key)
  return ms < 0 and LIMIT or ms * 1000
end

-- fingerprint_of is the fingerprint in the details that a client sends.
local function fingerprint_of(details)
  return string.match(details, '\nfingerprint=([^\n]*)\n')
end

-- claimed is the record as its owner last saw it, to be put in the place of old.
-- An owner that never got the reply to its reserve knows no fence, attempt or
-- creation: these are 0.
local function claimed(args, old, now)
  local fence, attempt = args.fence, tonumber(args.attempt)
  if fence == '0' then
    fence = next_fence(old, now)
  end
  if old and tonumber(old.fence) > tonumber(fence) then
    fence = old.fence
  end
  local record = {
    owner = args.owner, fence = fence,
    attempt = decimal(math.max(attempt, old and tonumber(old.attempt) or 1, 1)),
    created_us = args.created_us == '0' and decimal(now) or args.created_us,
  }
  details_at(record, args.details, 1)
  return record
end

-- claim_of reads the arguments that state a record: token, details, fence,
-- attempt, created.
local function claim_of(argv)
  return { owner = argv[1], details = argv[2], fence = argv[3], attempt = argv[4], created_us = argv[5] }
end
