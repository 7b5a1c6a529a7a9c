-- List: reads the record if it is open: a reservation, held, or not to be read.
--
-- KEYS[1]  the record
--
-- Reply: { 1, time left in microseconds, the record, or its beginning when it cannot
-- be read, the server's time in microseconds }, or { 0 } when there is nothing to show.
--
-- A script, because results stay on the server so, and because the time left is by
-- the server's clock, read in the same step.

local old = read(KEYS[1])
if not old or settled(old) or old.status == 'released' then return { 0 } end
local raw = old.status == 'unknown' and string.sub(old.raw, 1, 32) or old.raw
local now = clock()
return { 1, left(KEYS[1], old, now), raw, now }
