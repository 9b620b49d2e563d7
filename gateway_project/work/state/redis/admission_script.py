"""The Lua script that admits a request in Redis: all limits at once, the cached answer, and the flight.

`Counters` (state/counters.py) does the same in one process; tests/gateway_project/work/state/test_admission_table.py
is the table of what both have to do.
"""

from gateway_project.work.state.redis.scripts import CLOCK, EPOCH, FLIGHT_MS, FUNCTIONS, LEASE_MS

# How lost counts are treated; PLAIN: all checks are of requests per minute, which are never rebuilt.
REFUSE_LOST, PLAIN, ACCEPT_LOST = "0", "1", "2"
# Not functions of the script: a closure takes longer than what it does here.
LOOK_UP = """
local value = reads and redis.call('GET', KEYS[1])
local mode = (value or token == '') and 0 or 2  -- 0 ends at once, 1 waits for another's answer, 2 asks a provider
if mode == 2 and type(leader) == 'string' and not again and redis.call('PTTL', KEYS[2]) >= 0 then mode = 1 end
"""
CLAIM = """
if flies and mode == 2 then redis.call('SET', KEYS[2], token, 'PX', FLIGHT) end
"""
# First all limits are checked, then all are counted: a refused request is counted nowhere. Reservations are made only
# if this request calls a provider: not for a cached answer, and not while waiting for another request's answer.
# Of several candidates the first with room is chosen.
# A flight key of another type or without an expiry is not ours and would never lapse, so it is overwritten.
#
# KEYS: answer, flight, one for each check. ARGV: number of the caller's own checks, number of candidates with checks,
# whether to read the answer, token, whether to claim the flight, how lost counts are treated, the key of the epoch; and
# for each check: its candidate (0: the caller's own), kind (of LimitKind: n COUNT, r RESERVE, l LEASE, u USE), amount,
# window, take, minimum or member, since, and when it was set (ms; 0 if unknown): the eight values of check i begin at
# ARGV[8 * i]. If it is PLAIN: only amount and take, those of check i from ARGV[2 * i + 6] on. RedisState
# writes the arguments (state.py), replies.py reads the reply.
ADMIT = (
    CLOCK
    + f"local FLIGHT, LEASE = {FLIGHT_MS}, {LEASE_MS}\n"
    + """
local own, candidates, reads, token = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4]
local flies = ARGV[5] == '1'
local leader = flies and redis.pcall('GET', KEYS[2])
local again = flies and leader == token  -- its first reply was lost

-- The commonest case ends here, since it needs none of the functions below: defining them takes as long as all this.
if ARGV[6] == '1' then
  local names, totals, takes, refused, begin = {}, {}, {}, 0, now - now % 60
  for i = 1, own do
    names[i], takes[i] = KEYS[i + 2] .. ':' .. begin, tonumber(ARGV[2 * i + 7])
    totals[i] = tonumber(redis.call('HGET', names[i], 'used') or '0')
    if refused == 0 and not again and totals[i] + takes[i] > tonumber(ARGV[2 * i + 6]) then refused = i end
  end
  if refused > 0 then return {refused, ms, begin + 60, totals[refused], totals, 0, {}} end
  for i = 1, again and 0 or own do
    totals[i] = redis.call('HINCRBY', names[i], 'used', takes[i])
    if totals[i] == takes[i] then redis.call('EXPIREAT', names[i], begin + 120) end
  end
"""
    + LOOK_UP
    + CLAIM
    + """
  return {0, ms, value, mode, 0, {}, totals, {}, {}, {}, {}}
end
"""
    + FUNCTIONS
    + EPOCH
    + """
local lost, epoch = {}, nil
local refuses = ARGV[6] == '0'

local function complete(begin, since)  -- whether a count that is not there is known to be zero
  if since == 0 then return true end
  epoch = epoch or begin_epoch(ARGV[7])
  return epoch <= begin and since + SPREAD <= begin
end

local function held_of(key)  -- the stored sum may be lost while its parts are not
  local held = 0
  for _, member in ipairs(redis.call('ZRANGE', key .. ':held', 0, -1)) do held = held + member:match(':(%d+)$') end
  redis.call('HSET', key, 'held', whole(held))
  return held
end

local function begin_count(c, begin)
  if c.kind == 'r' then c.held = held_of(c.key) end
  if complete(begin, c.since) then
    c.from = begin * 1000
    redis.call('HSET', c.key, 'from', whole(c.from), 'set', whole(c.set))
  else
    -- The log knows what was used before; some processes do not know a limit yet that has just been set.
    c.from = math.max(ms, math.min(c.set + SPREAD * 1000, ms + SPREAD * 1000))
    local is_whole = epoch * 1000 <= c.set and '2' or '1'  -- nothing was lost since it was set
    redis.call('HSET', c.key, 'from', whole(c.from), 'set', whole(c.set), 'used', 0, 'early', 0, 'lost', is_whole)
    c.used = 0
    lost[#lost + 1] = {c.i, c.from, tonumber(is_whole)}
  end
  expire(c.key, c.ends)
end

local function count(c)
  local begin = begin_of(c.window)
  c.ends = c.window > 0 and begin + c.window or month(begin + 32 * 86400)
  c.key = c.key .. ':' .. whole(begin)
  if c.kind == 'r' then lapse(c.key) end
  local fields = redis.call('HMGET', c.key, 'used', 'held', 'from', 'lost', 'set')
  c.used, c.held = tonumber(fields[1] or '0'), math.max(tonumber(fields[2] or '0'), 0)
  if c.held > 0 and redis.call('EXISTS', c.key .. ':held') == 0 then c.held = held_of(c.key) end
  c.from = tonumber(fields[3] or '0')
  if not fields[3] or tonumber(fields[5] or '0') < c.set then begin_count(c, begin)
  elseif fields[4] then lost[#lost + 1] = {c.i, c.from, tonumber(fields[4])} end
end

-- Without a write: a Redis that is full refuses a script at its first write only, if that takes memory.
local function leases(c)
  local live = '(' .. whole(ms)
  c.used, c.ends = redis.call('ZCOUNT', c.key, live, '+inf'), now + 1
  if c.used < c.amount or c.amount == 0 then return end
  c.is_live = tonumber(redis.call('ZSCORE', c.key, c.kind == 'u' and c.least or token) or '0') > ms
  if c.kind == 'u' then
    local first = redis.call('ZRANGEBYSCORE', c.key, live, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    c.ends = math.ceil(first[2] / 1000)
  end
end

local function live(key)  -- how many there are, when those that have lapsed are gone
  redis.call('ZREMRANGEBYSCORE', key, '-inf', ms)
  return redis.call('ZCARD', key)
end

local function check(i)
  local at = 8 * i - 1
  local c = {
    i = i, key = KEYS[i + 2], candidate = tonumber(ARGV[at + 1]), kind = ARGV[at + 2], amount = tonumber(ARGV[at + 3]),
    window = tonumber(ARGV[at + 4]), take = tonumber(ARGV[at + 5]), least = ARGV[at + 6],
    since = tonumber(ARGV[at + 7]), set = tonumber(ARGV[at + 8])
  }
  if c.kind == 'n' or c.kind == 'r' then count(c) else leases(c) end
  return c
end

local function is_used_up(c)
  if c.kind == 'n' then return c.used + c.take > c.amount end
  if c.kind == 'r' then return c.used >= c.amount end
  return c.amount > 0 and c.used >= c.amount and not c.is_live
end

local function lacks_room(c)  -- for a reservation; one without a bound takes what is left
  if c.kind ~= 'r' then return false end
  local room = c.amount - c.used - c.held
  c.take = math.min(c.take, room)
  return room < tonumber(c.least)
end

local function take(c, mode)  -- returns what is used with this request
  if c.kind == 'n' then return redis.call('HINCRBY', c.key, 'used', c.take) + c.held end
  if c.kind == 'u' then
    use(c.key, c.least, c.window, mode > 0 and token or '', LEASE)
    return note_peak(c.key, live(c.key))
  end
  if c.kind == 'l' then
    if mode > 0 then keep(c.key, token, LEASE) end
    return live(c.key)
  end
  if mode < 2 then return c.used + c.held end
  reserve(c.key, token, whole(c.take), LEASE, c.ends)
  return c.used + c.held + c.take
end

local function total(c) return c.used + (c.held or 0) end

local checks = {}

local function refuse(c)  -- its number, end, total, and what of that is held; both of the caller's own checks
  local totals, helds = {}, {}
  for n = 1, own do totals[n], helds[n] = total(checks[n]), checks[n].held or 0 end
  return {c.i, ms, c.ends, total(c), totals, c.held or 0, helds}
end

for i = 1, own do checks[i] = check(i) end
if #lost > 0 and refuses then return {-1, ms, lost} end
for _, c in ipairs(checks) do
  if is_used_up(c) and not again then return refuse(c) end
end

"""
    + LOOK_UP
    + """
local choice, full = 0, {}
if mode == 2 then
  for _, c in ipairs(checks) do
    if lacks_room(c) and not again then return refuse(c) end
  end
  local i = own + 1
  for candidate = 1, candidates do
    local its, short = {}, nil
    while tonumber(ARGV[8 * i] or '-1') == candidate do
      local c = check(i)
      its[#its + 1] = c
      if is_used_up(c) or lacks_room(c) then short = short or c end
      i = i + 1
    end
    if #lost > 0 and refuses then return {-1, ms, lost} end
    if not short or again then
      for _, c in ipairs(its) do checks[#checks + 1] = c end
      choice = candidate
      break
    end
    full[#full + 1] = short
  end
  if choice == 0 and candidates > 0 then
    table.sort(full, function(one, other) return one.ends < other.ends end)
    return refuse(full[1])
  end
end

local totals, takes, froms, uses, helds = {}, {}, {}, {}, {}
for n, c in ipairs(checks) do
  totals[n] = again and total(c) or take(c, mode)
  takes[n], froms[n], uses[n], helds[n] = c.take, c.from or 0, c.used, c.held or 0
end
for n, c in ipairs(full) do full[n] = {c.i, c.ends, c.used, c.held or 0} end
"""
    + CLAIM
    + """
return {0, ms, value, mode, choice, full, totals, takes, froms, uses, helds}
"""
)
