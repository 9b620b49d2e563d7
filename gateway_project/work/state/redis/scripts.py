"""The other Lua scripts: each is one step of a request, atomic for all processes.

All times are those of Redis, so that replicas with different clocks share one minute. Under `limit:` there is

- for each window of a count a hash: `used`, `held` (the sum of all reservations), `from` (since when it has been
  counted here, in ms), `set` (when its limit was set, in ms), and while what was used before has to be rebuilt `lost`
  (2 if nothing was lost since the limit was set, else 1) and `early` (what of `used` the log will tell, too); beside
  it, under `:held`, a sorted set of the reservations `token:amount` by the time at which each lapses;
- for concurrent requests a sorted set of tokens by the time at which each lapses;
- for uses a sorted set of members by the time at which each lapses; for each member, under its name, one of the tokens
  of its requests in flight; and for each of the last days, under `:peak:` and its first second, the peak number.
"""

from gateway_project.work.limits.checks import LEASE_SECONDS, MAX_AMOUNT, SPREAD_SECONDS
from gateway_project.work.state.shared import FLIGHT_SECONDS

FLIGHT_MS, LEASE_MS = FLIGHT_SECONDS * 1000, LEASE_SECONDS * 1000
CLOCK = """
local time = redis.call('TIME')
local now = tonumber(time[1])
local ms = now * 1000 + math.floor(time[2] / 1000)
"""
FUNCTIONS = (
    f"local SPREAD, MOST = {SPREAD_SECONDS}, {MAX_AMOUNT}\n"
    + """
local function whole(number) return string.format('%.0f', number) end

local function add(key, amount)  -- up to the largest integer that Lua counts exactly
  local used = math.min(tonumber(redis.call('HGET', key, 'used') or '0') + amount, MOST)
  redis.call('HSET', key, 'used', whole(math.max(used, 0)))
end

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

local function give_back(key, take)  -- subtracted, for Redis takes "-0" for no integer
  redis.call('HINCRBY', key, 'held', whole(0 - take))
end

local function lapse(key)  -- reservations whose process has died are free again
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key .. ':held', '-inf', ms)) do
    redis.call('ZREM', key .. ':held', member)
    give_back(key, member:match(':(%d+)$'))
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

local function note_peak(key, uses)  -- the peak of this day; their number grows nowhere else
  local name = key .. ':peak:' .. whole(now - now % 86400)
  if uses > tonumber(redis.call('GET', name) or '0') then redis.call('SET', name, uses, 'EX', 3 * 86400) end
  return uses
end
"""
)
EPOCH = """
local function info_of(section, field)
  local info = redis.pcall('INFO', section)
  return type(info) == 'string' and info:match(field .. ':(%w+)') or ''
end

local function begin_epoch(key)  -- since when nothing is missing that was counted here
  local mark = info_of('server', 'run_id') .. ' ' .. info_of('stats', 'evicted_keys')
  local stored = redis.call('HMGET', key, 'at', 'mark')
  if stored[2] == mark then return tonumber(stored[1]) end
  -- Redis is new, was replaced or flushed, or has evicted keys
  redis.call('HSET', key, 'at', now + 1, 'mark', mark)
  return now + 1
end
"""
COMMON = CLOCK + FUNCTIONS

# KEYS: answer, flight, and one for each hold. ARGV: value, seconds, token of the flight, token of the holds, and for
# each hold: kind, take, amount, end of its window (or lifetime), when it was admitted and when it ended (ms), and its
# member, or 1 if its count is rebuilt when lost.
_SETTLE = """
local function settle_count(kind, key, take, amount, ends, admitted, ended, rebuilt)
  if now >= ends + 60 then return end
  local reservation = ARGV[4] .. ':' .. whole(take)
  if kind == 'r' and redis.call('ZREM', key .. ':held', reservation) == 1 then give_back(key, take) end
  local fields = redis.call('HMGET', key, 'from', 'lost')
  local from = tonumber(fields[1] or '0')
  if rebuilt and from == 0 then return end  -- it will be rebuilt from the log, which has it then
  local before = kind == 'n' and from <= admitted and take or 0  -- counted when it was admitted
  if amount - before ~= 0 then
    add(key, amount - before)
    expire(key, ends)
  end
  if fields[2] and from >= ended then redis.call('HINCRBY', key, 'early', whole(amount)) end
end

for i = 1, (#ARGV - 4) / 7 do
  local at, key = 7 * i - 3, KEYS[i + 2]
  local kind, ends, extra = ARGV[at + 1], tonumber(ARGV[at + 4]), ARGV[at + 7]
  local admitted, ended = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  if kind == 'l' then redis.call('ZREM', key, ARGV[4])
  elseif kind == 'u' then end_use(key, extra, ends, ARGV[4])
  else
    settle_count(kind, key, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), ends, admitted, ended, extra == '1')
  end
end
"""
_LAND = "if redis.call('GET', KEYS[2]) == ARGV[3] then redis.call('DEL', KEYS[2]) end\n"
_SET = "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])\n"
STORE = COMMON + _SET + _LAND + _SETTLE
RELEASE = COMMON + _LAND + _SETTLE
SETTLE = COMMON + _SETTLE
# The scripts to use when nothing is held.
ALONE = {STORE: _SET + _LAND, RELEASE: _LAND, SETTLE: ""}

# KEYS: one for each hold. ARGV: lease (ms), and for each hold: kind, token, take, end of its window (or lifetime),
# member. A hold that lapsed, or that Redis lost, is taken again: its request is still in flight.
RENEW_HOLDS = (
    COMMON
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

# Uses without a limit, as noted by one process. KEYS: the uses. ARGV: lease (ms), the process's token; and for each:
# member, lifetime (s), whether it is in flight.
NOTE_USES = (
    COMMON
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

# The number of live uses.
USES = COMMON + "return redis.call('ZCOUNT', KEYS[1], '(' .. whole(ms), '+inf')"

# Adds counts made while Redis was down. KEYS: counts. ARGV: for each what was used, the end of its window, and since
# when (ms) it was counted in a process: a count that was lost since then is rebuilt from the log instead; -1 if it is
# never rebuilt.
ADD = (
    COMMON
    + """
for i, key in ipairs(KEYS) do
  local since = tonumber(ARGV[3 * i])
  local from = redis.pcall('HGET', key, 'from')
  if type(from) ~= 'table' and (since < 0 or tonumber(from or since + 1) <= since) then
    add(key, ARGV[3 * i - 2])
    expire(key, ARGV[3 * i - 1])
  end
end
"""
)

# KEYS: counts. ARGV: for each what the log says was used, and until when (ms). Only the first call has an effect.
REBUILD = (
    COMMON
    + """
for i, key in ipairs(KEYS) do
  if redis.call('HGET', key, 'from') == ARGV[2 * i] and redis.call('HDEL', key, 'lost') == 1 then
    add(key, ARGV[2 * i - 1] - (redis.call('HGET', key, 'early') or 0))
    redis.call('HDEL', key, 'early')
  end
end
"""
)

# KEYS: checks. ARGV: for each kind, window, whether its count is rebuilt when lost, and when it was set (ms).
# Returns for each what is used and held; nil if that is not known.
USED = (
    COMMON
    + """
local results = {}
for i, key in ipairs(KEYS) do
  local kind, window, rebuilt = ARGV[4 * i - 3], tonumber(ARGV[4 * i - 2]), ARGV[4 * i - 1] == '1'
  if kind == 'n' or kind == 'r' then
    key = key .. ':' .. whole(begin_of(window))
    if kind == 'r' then lapse(key) end
    local fields = redis.call('HMGET', key, 'used', 'held', 'from', 'lost', 'set')
    local is_known = fields[3] and not fields[4] and tonumber(fields[5] or '0') >= tonumber(ARGV[4 * i])
    local total = tonumber(fields[1] or '0') + math.max(tonumber(fields[2] or '0'), 0)
    results[i] = (not rebuilt or is_known) and total
  else
    results[i] = redis.call('ZCOUNT', key, '(' .. whole(ms), '+inf')
  end
end
return results
"""
)

# What is known of checks, without a write. KEYS: checks. ARGV: for each kind, window and member.
# Returns the time (ms), and for each of a count: what is used and held, `from`, `lost`, `set` and `early`; of leases
# and uses: how many are live, whether the member has one, and when the first ends (ms).
FIGURES = (
    COMMON
    + """
local live, results = '(' .. whole(ms), {}

local function held_of(key)
  local held = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key .. ':held', live, '+inf')) do
    held = held + member:match(':(%d+)$')
  end
  return held
end

for i, key in ipairs(KEYS) do
  local kind, window, member = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), ARGV[3 * i]
  if kind == 'n' or kind == 'r' then
    key = key .. ':' .. whole(begin_of(window))
    local fields = redis.call('HMGET', key, 'used', 'from', 'lost', 'set', 'early')
    local held = kind == 'r' and held_of(key) or 0
    results[i] = {
      tonumber(fields[1] or '0'), held, tonumber(fields[2] or '-1'), fields[3] and 1 or 0, tonumber(fields[4] or '0'),
      tonumber(fields[5] or '0')
    }
  else
    local first = redis.call('ZRANGEBYSCORE', key, live, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local is_member = tonumber(redis.call('ZSCORE', key, member) or '0') > ms
    results[i] = {redis.call('ZCOUNT', key, live, '+inf'), is_member and 1 or 0, tonumber(first[2] or '0')}
  end
end
return {ms, results}
"""
)

# KEYS: counts. ARGV: for each until when it is to be rebuilt (ms). Returns for each 1 while it is lost, else 0.
LOST = """
local results = {}
for i, key in ipairs(KEYS) do
  local fields = redis.call('HMGET', key, 'lost', 'from')
  results[i] = fields[1] and fields[2] == ARGV[i] and 1 or 0
end
return results
"""

# The heartbeat of a process; returns the number of processes with a recent one, and begins the epoch, so that it is
# older than limits that are set later. KEYS: the processes, a sorted set by the time at which each lapses, and the
# epoch. ARGV: this process, and the time after which it lapses (ms). A key of another type is
# replaced; impossible times, as after a change of Redis' clock, are removed.
COUNT_PROCESSES = (
    COMMON
    + EPOCH
    + """
begin_epoch(KEYS[2])
local lapses = ms + tonumber(ARGV[2])
if type(redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)) == 'table' then redis.call('DEL', KEYS[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. whole(lapses), '+inf')
redis.call('ZADD', KEYS[1], whole(lapses), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
"""
)

# Note owners. KEYS: of things that providers keep. ARGV: the seconds until this is forgotten, and the owner of each,
# which is left as it is where there is one. Returns the owners.
OWN = """
for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i + 1], 'NX', 'EX', ARGV[1]) end
return redis.call('MGET', unpack(KEYS))
"""

ALL = (
    COUNT_PROCESSES,
    OWN,
    *ALONE.values(),
    STORE,
    RELEASE,
    SETTLE,
    RENEW,
    RENEW_HOLDS,
    NOTE_USES,
    USES,
    ADD,
    USED,
    FIGURES,
    REBUILD,
    LOST,
)
