-- Helpers of every script: this text is put in front of each when it is loaded,
-- behind a line that sets VERSION, the version of the record layout.

-- The largest integer that a Lua number holds exactly, 2^53 - 1.
local LIMIT = 9007199254740991

-- The header of a record. Every line is anchored to the one before it and no
-- value holds a newline, so nothing that a user writes can pass for a header.
local HEADER = '^onceguard/(%d+) (%l+)\n'
  .. 'owner=([^\n]*)\nfence=(%d+)\nattempt=(%d+)\n'
  .. 'until_us=(%d+)\ncreated_us=(%d+)\nupdated_us=(%d+)\n'
  .. '()label=([^\n]*)\ntraceparent=([^\n]*)\nfingerprint=[^\n]*\n()'
local PREVIOUS = '^prev_owner=[^\n]*\nprev_fence=(%d+)\nprev_label=[^\n]*\nprev_traceparent=[^\n]*\n()'
local TAIL = '^encoding=[^\n]*\n\n'

local STATUS = { pending = true, completed = true, released = true }

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

-- parse reads a record. What it does not understand, such as a version that is
-- newer, has the status 'unknown': nobody may write over it.
local function parse(raw)
  local unknown = { raw = raw, status = 'unknown' }
  local version, status, owner, fence, attempt, until_us, created_us, updated_us, from, label, traceparent, past =
    string.match(raw, HEADER)
  if not STATUS[status] or not readable(version) or not exact(fence, attempt, until_us, created_us, updated_us) then
    return unknown
  end
  local previous_fence, past_previous = string.match(raw, PREVIOUS, past)
  if past_previous then
    if not exact(previous_fence) then return unknown end
    past = past_previous
  end
  if not string.match(raw, TAIL, past) then return unknown end
  return {
    raw = raw, status = status, owner = owner, fence = fence, attempt = attempt,
    until_us = tonumber(until_us), created_us = created_us,
    label = label, traceparent = traceparent, details = string.sub(raw, from, past - 1),
  }
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

-- write stores a record with an expiry, always, and returns its text.
local function write(key, record, now, px, encoding, result)
  local raw = table.concat({
    'onceguard/', VERSION, ' ', record.status,
    '\nowner=', record.owner, '\nfence=', record.fence, '\nattempt=', record.attempt,
    '\nuntil_us=', decimal(record.until_us), '\ncreated_us=', record.created_us,
    '\nupdated_us=', decimal(now), '\n', record.details,
    'encoding=', encoding or '', '\n\n', result or '',
  })
  redis.call('SET', key, raw, 'PX', px)
  return raw
end

-- hold writes a reservation whose lease runs from now and never ends earlier than
-- it did: a renewal that comes late must not undo a longer one.
local function hold(key, record, now, lease, px)
  local until_us = now + lease
  record.until_us = math.max(record.until_us or 0, until_us)
  local longer = math.ceil((record.until_us - until_us) / 1000)
  return write(key, record, now, decimal(tonumber(px) + longer))
end

-- over says whether the record's time has run out.
local function over(record, now)
  return record.status ~= 'unknown' and now >= record.until_us
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
  return {
    owner = args.owner, fence = fence,
    attempt = decimal(math.max(attempt, old and tonumber(old.attempt) or 1, 1)),
    created_us = args.created_us == '0' and decimal(now) or args.created_us,
    details = args.details,
  }
end

-- claim_of reads the arguments that state a record: token, details, fence,
-- attempt, created.
local function claim_of(argv)
  return { owner = argv[1], details = argv[2], fence = argv[3], attempt = argv[4], created_us = argv[5] }
end
