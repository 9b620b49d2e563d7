"""What Redis runs for us: each script is one step of a request that all processes see done wholly or not at all.

All times are those of Redis, so that replicas with different clocks share one minute. Under `limit:` there is

- for each window of a count a hash: `used`, `held` (the sum of all reservations), `from` (the moment, in
  milliseconds, since which it has been counted here), and `lost` while what was used before has to be rebuilt;
  beside it, under `:held`, a sorted set of the reservations `token:amount` by the moment at which each lapses;
- for concurrent requests a sorted set of tokens by the moment at which each lapses;
- for uses a sorted set of members by the moment at which each lapses, and for each member, under its name, one
  of the tokens of its requests in flight; and for each of the last days, under `:peak:` and its first second, the
  most that were live at one moment.
"""

_COMMON = """
local time = redis.call('TIME')
local now = tonumber(time[1])
local ms = now * 1000 + math.floor(time[2] / 1000)

local function whole(number) return string.format('%.0f', number) end

local function month(at)  -- the first second of its month (Howard Hinnant's civil_from_days)
  local day = math.floor(at / 86400)
  local era = (day + 719468) % 146097
  local year = math.floor((era - math.floor(era / 1460) + math.floor(era / 36524) - math.floor(era / 146096)) / 365)
  local of_year = era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  return (day - of_year + math.floor((153 * math.floor((5 * of_year + 2) / 153) + 2) / 5)) * 86400
end

local function begin_of(window) return window > 0 and now - now % window or month(now) end

local function expire(key, ends) redis.call('EXPIREAT', key, whole(ends + 60)) end

local function keep(key, member, lease)  -- whether it is new
  local new = redis.call('ZADD', key, ms + lease, member) == 1
  redis.call('PEXPIRE', key, lease)
  return new
end

local function reserve(key, token, take, lease, ends)
  if redis.call('ZADD', key .. ':held', ms + lease, token .. ':' .. take) == 1 then
    redis.call('HINCRBY', key, 'held', take)
    expire(key .. ':held', ends)
    expire(key, ends)
  end
end

local function lapse(key)  -- reservations whose process has died are free again
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key .. ':held', '-inf', ms)) do
    redis.call('ZREM', key .. ':held', member)
    redis.call('HINCRBY', key, 'held', '-' .. member:match(':(%d+)$'))
  end
end

local function live_until(key, member, lives)
  redis.call('ZADD', key, ms + lives, member)
  redis.call('PEXPIRE', key, lives + 60000)
end

local function use(key, member, life, token, lease)  -- in flight where there is a token, else over at once
  local lives = life * 1000
  if token ~= '' then
    keep(key .. ':' .. member, token, lease)
    lives = math.max(lives, lease)
  end
  if tonumber(redis.call('ZSCORE', key, member) or '0') < ms + lives then live_until(key, member, lives) end
end

local function end_use(key, member, life, token)
  local flying = key .. ':' .. member
  redis.call('ZREM', flying, token)
  redis.call('ZREMRANGEBYSCORE', flying, '-inf', ms)
  if redis.call('ZCARD', flying) == 0 then live_until(key, member, life * 1000) end
end

local function note_peak(key, uses)  -- the most of this day; uses grow nowhere but here
  local name = key .. ':peak:' .. whole(now - now % 86400)
  if uses > tonumber(redis.call('GET', name) or '0') then redis.call('SET', name, uses, 'EX', 3 * 86400) end
  return uses
end
"""

# The commonest admission: nothing but requests a minute. It does what ADMIT does, without the machinery for all else.
#
# KEYS: answer, flight, one for each check. ARGV: whether to read, token, whether to fly, patience (ms); and for each
# check: amount, window, take.
ADMIT_PLAIN = """
local time = redis.call('TIME')
local now = tonumber(time[1])
local token, flies = ARGV[2], ARGV[3] == '1'
local leader = flies and redis.pcall('GET', KEYS[2])
local again = flies and leader == token  -- its first reply was lost
local names, counts = {}, {}
for i = 1, #KEYS - 2 do
  local window = tonumber(ARGV[3 * i + 3])
  names[i] = KEYS[i + 2] .. ':' .. now - now % window
  counts[i] = tonumber(redis.call('HGET', names[i], 'used') or '0')
  if not again and counts[i] + tonumber(ARGV[3 * i + 4]) > tonumber(ARGV[3 * i + 2]) then return {i, now} end
end
for i = 1, again and 0 or #names do
  local window, take = tonumber(ARGV[3 * i + 3]), tonumber(ARGV[3 * i + 4])
  counts[i] = redis.call('HINCRBY', names[i], 'used', take)
  if counts[i] == take then redis.call('EXPIREAT', names[i], now - now % window + window + 60) end
end
local value = ARGV[1] == '1' and redis.call('GET', KEYS[1])
local mode = (value or token == '') and 0 or 2
if mode == 2 and flies then
  if type(leader) == 'string' and not again and redis.call('PTTL', KEYS[2]) >= 0 then
    mode = 1
  else
    redis.call('SET', KEYS[2], token, 'PX', ARGV[4])
  end
end
return {0, now, value, mode, unpack(counts)}
"""

# First all limits are asked, and then all are counted: a refused request is counted nowhere. What a provider is
# asked for is reserved only where one is asked: not for a stored answer, and not for one that another is getting.
# Of several candidates the first that has room is chosen.
# A flight that is none of ours, which would never lapse or be seen by look(), is taken over.
#
# KEYS: answer, flight, one for each check. ARGV: how many checks are the caller's own, how many candidates have some,
# whether to read, token, whether to fly, patience and lease (ms), the name of the epoch; and for each check: its
# candidate (0: the caller's own), kind, amount, window, take, least or member, since.
ADMIT = (
    _COMMON
    + """
local own, candidates, reads, token = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4]
local flies, patience, lease = ARGV[5] == '1', ARGV[6], tonumber(ARGV[7])
local lost, epoch = {}, nil

local function complete(begin, since)  -- whether a count that is not there is known to be zero
  if since == 0 then return true end
  if not epoch then epoch = tonumber(redis.call('GET', ARGV[8])) end
  if not epoch then  -- Redis is new, or has forgotten everything
    epoch = now + 1
    redis.call('SET', ARGV[8], epoch)
  end
  return epoch <= begin and since <= begin
end

local function begin_count(c, begin)
  if complete(begin, c.since) then
    redis.call('HSET', c.key, 'from', whole(begin * 1000))
  else
    redis.call('HSET', c.key, 'from', whole(ms), 'lost', 1)
    lost[#lost + 1] = {c.i, ms}
  end
  expire(c.key, c.ends)
end

local function count(c)
  local begin = begin_of(c.window)
  c.ends = c.window > 0 and begin + c.window or month(begin + 32 * 86400)
  c.key = c.key .. ':' .. whole(begin)
  if c.kind == 'r' then lapse(c.key) end
  local found = redis.call('HMGET', c.key, 'used', 'held', 'from', 'lost')
  c.used, c.held = tonumber(found[1] or '0'), math.max(tonumber(found[2] or '0'), 0)
  if not found[3] then begin_count(c, begin)
  elseif found[4] then lost[#lost + 1] = {c.i, tonumber(found[3])} end
end

-- Without a write: a Redis that is full refuses a script at its first write only, if that takes memory.
local function leases(c)
  local live = '(' .. whole(ms)
  c.used, c.ends = redis.call('ZCOUNT', c.key, live, '+inf'), now + 1
  if c.used < c.amount or c.amount == 0 then return end
  c.known = tonumber(redis.call('ZSCORE', c.key, c.kind == 'u' and c.least or token) or '0') > ms
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
  local at = 1 + 7 * i
  local c = {
    i = i, key = KEYS[i + 2], candidate = tonumber(ARGV[at + 1]), kind = ARGV[at + 2], amount = tonumber(ARGV[at + 3]),
    window = tonumber(ARGV[at + 4]), take = tonumber(ARGV[at + 5]), least = ARGV[at + 6], since = tonumber(ARGV[at + 7])
  }
  if c.kind == 'n' or c.kind == 'r' then count(c) else leases(c) end
  return c
end

local function is_used_up(c)
  if c.kind == 'n' then return c.used + c.take > c.amount end
  if c.kind == 'r' then return c.used >= c.amount end
  return c.amount > 0 and c.used >= c.amount and not c.known
end

local function lacks_room(c)  -- for a reservation; one without a bound takes what there is
  if c.kind ~= 'r' then return false end
  local room = c.amount - c.used - c.held
  c.take = math.min(c.take, room)
  return room < tonumber(c.least)
end

local function take(c, mode)  -- what it comes to with this request
  if c.kind == 'n' then return redis.call('HINCRBY', c.key, 'used', c.take) + c.held end
  if c.kind == 'u' then
    use(c.key, c.least, c.window, mode > 0 and token or '', lease)
    return note_peak(c.key, live(c.key))
  end
  if c.kind == 'l' then
    if mode > 0 then keep(c.key, token, lease) end
    return live(c.key)
  end
  if mode < 2 then return c.used + c.held end
  reserve(c.key, token, whole(c.take), lease, c.ends)
  return c.used + c.held + c.take
end

local leader = flies and redis.pcall('GET', KEYS[2])
local again = flies and leader == token  -- its first reply was lost

local checks = {}
for i = 1, own do checks[i] = check(i) end
if #lost > 0 then return {-1, ms, lost} end
for _, c in ipairs(checks) do
  if is_used_up(c) and not again then return {c.i, ms, c.ends} end
end

local value = reads and redis.call('GET', KEYS[1])
local mode = (value or token == '') and 0 or 2  -- 0 ends at once, 1 waits for another's answer, 2 asks a provider
if mode == 2 and type(leader) == 'string' and not again and redis.call('PTTL', KEYS[2]) >= 0 then mode = 1 end

local choice, full = 0, {}
if mode == 2 then
  for _, c in ipairs(checks) do
    if lacks_room(c) and not again then return {c.i, ms, c.ends} end
  end
  local i = own + 1
  for candidate = 1, candidates do
    local its, short = {}, nil
    while tonumber(ARGV[2 + 7 * i] or '-1') == candidate do
      local c = check(i)
      its[#its + 1] = c
      if is_used_up(c) or lacks_room(c) then short = short or c end
      i = i + 1
    end
    if #lost > 0 then return {-1, ms, lost} end
    if not short or again then
      for _, c in ipairs(its) do checks[#checks + 1] = c end
      choice = candidate
      break
    end
    full[#full + 1] = {short.i, short.ends}
  end
  if choice == 0 and candidates > 0 then
    table.sort(full, function(one, other) return one[2] < other[2] end)
    return {full[1][1], ms, full[1][2]}
  end
end

local totals, takes = {}, {}
for n, c in ipairs(checks) do
  totals[n] = again and c.used + (c.held or 0) or take(c, mode)
  takes[n] = c.take
end
if flies and mode == 2 then redis.call('SET', KEYS[2], token, 'PX', patience) end
return {0, ms, value, mode, choice, full, totals, takes}
"""
)

# KEYS: answer, flight, and one for each hold. ARGV: value, seconds, token of the flight, token of the holds, and for
# each hold: kind, take, amount, end of its window (or life), when it was admitted (ms), and its member, or 1 where its
# count is rebuilt when it is lost.
_SETTLE = """
local function settle_count(kind, key, take, amount, ends, admitted, rebuilt)
  if now >= ends + 60 then return end
  if kind == 'r' and redis.call('ZREM', key .. ':held', ARGV[4] .. ':' .. take) == 1 then
    redis.call('HINCRBY', key, 'held', '-' .. take)
  end
  local from = redis.call('HGET', key, 'from')
  if rebuilt and not from then return end  -- the log tells it, from which this count will be rebuilt
  if kind == 'n' and tonumber(from) <= admitted then return end  -- it was counted when it was admitted
  redis.call('HINCRBY', key, 'used', amount)
  expire(key, ends)
end

for i = 1, (#ARGV - 4) / 6 do
  local at, key = 6 * i - 2, KEYS[i + 2]
  local kind, ends, admitted, extra = ARGV[at + 1], tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), ARGV[at + 6]
  if kind == 'l' then redis.call('ZREM', key, ARGV[4])
  elseif kind == 'u' then end_use(key, extra, ends, ARGV[4])
  else settle_count(kind, key, ARGV[at + 2], ARGV[at + 3], ends, admitted, extra == '1') end
end
"""
_LAND = "if redis.call('GET', KEYS[2]) == ARGV[3] then redis.call('DEL', KEYS[2]) end\n"
_SET = "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])\n"
STORE = _COMMON + _SET + _LAND + _SETTLE
RELEASE = _COMMON + _LAND + _SETTLE
SETTLE = _COMMON + _SETTLE
# The same where nothing is held.
ALONE = {STORE: _SET + _LAND, RELEASE: _LAND, SETTLE: ""}

# KEYS: one for each hold. ARGV: lease (ms), and for each hold: kind, token, take, end of its window (or life), member.
# What lapsed, or was lost with all that Redis had, is taken again: the request is still in flight.
RENEW_HOLDS = (
    _COMMON
    + """
local lease = tonumber(ARGV[1])
for i = 1, (#ARGV - 1) / 5 do
  local at, key = 5 * i - 4, KEYS[i]
  local kind, token, ends = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 4])
  if kind == 'l' then keep(key, token, lease)
  elseif kind == 'u' then use(key, ARGV[at + 5], ends, token, lease)
  elseif kind == 'r' and now < ends then reserve(key, token, ARGV[at + 3], lease, ends) end
end
"""
)

RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"

# Uses that no limit bounds, as a process has noted them. KEYS: the uses. ARGV: lease (ms), the process's token; and
# for each: member, how long it lives on, whether it is in flight.
NOTE_USES = (
    _COMMON
    + """
local lease, token = tonumber(ARGV[1]), ARGV[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)
for at = 2, #ARGV - 1, 3 do
  local member, life = ARGV[at + 1], tonumber(ARGV[at + 2])
  if ARGV[at + 3] == '1' then use(KEYS[1], member, life, token, lease) else end_use(KEYS[1], member, life, token) end
end
note_peak(KEYS[1], redis.call('ZCARD', KEYS[1]))
"""
)

# How many uses are live.
USES = _COMMON + "return redis.call('ZCOUNT', KEYS[1], '(' .. whole(ms), '+inf')"

# Counts that were made without Redis. KEYS: counts. ARGV: for each what was used, the end of its window, and the
# moment (ms) since which it was counted elsewhere: a count that was lost since then is rebuilt from the log instead;
# -1 where it never is.
ADD = (
    _COMMON
    + """
for i, key in ipairs(KEYS) do
  local since = tonumber(ARGV[3 * i])
  local from = redis.pcall('HGET', key, 'from')
  if type(from) ~= 'table' and (since < 0 or tonumber(from or since + 1) <= since) then
    redis.pcall('HINCRBY', key, 'used', ARGV[3 * i - 2])
    expire(key, ARGV[3 * i - 1])
  end
end
"""
)

# KEYS: counts. ARGV: for each what the log tells that was used. Only the first to tell is heard.
REBUILD = """
for i, key in ipairs(KEYS) do
  if redis.call('HDEL', key, 'lost') == 1 then redis.call('HINCRBY', key, 'used', ARGV[i]) end
end
"""

# KEYS: checks. ARGV: for each kind, window, and whether its count is rebuilt when it is lost. For each what is used and
# held; nothing where that is not known.
USED = (
    _COMMON
    + """
local told = {}
for i, key in ipairs(KEYS) do
  local kind, window, rebuilt = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), ARGV[3 * i] == '1'
  if kind == 'n' or kind == 'r' then
    key = key .. ':' .. whole(begin_of(window))
    if kind == 'r' then lapse(key) end
    local found = redis.call('HMGET', key, 'used', 'held', 'from', 'lost')
    local total = tonumber(found[1] or '0') + math.max(tonumber(found[2] or '0'), 0)
    told[i] = (not rebuilt or (found[3] and not found[4])) and total
  else
    told[i] = redis.call('ZCOUNT', key, '(' .. whole(ms), '+inf')
  end
end
return told
"""
)

# KEYS: counts. For each 1 while it is lost.
LOST = "local told = {} for i, key in ipairs(KEYS) do told[i] = redis.call('HEXISTS', key, 'lost') end return told"

ALL = (
    *ALONE.values(),
    ADMIT,
    ADMIT_PLAIN,
    STORE,
    RELEASE,
    SETTLE,
    RENEW,
    RENEW_HOLDS,
    NOTE_USES,
    USES,
    ADD,
    USED,
    REBUILD,
    LOST,
)
