-- Load: reads the record.
--
-- KEYS[1]  the record
--
-- Reply: { 1, time left in microseconds, the record } or { 0 }.
--
-- A script, because the time left is by the server's clock, read in the same
-- step, and because a cluster client sends scripts to the primary only.

local old = read(KEYS[1])
if not old then return { 0 } end
return { 1, left(KEYS[1], old, clock()), old.raw }
