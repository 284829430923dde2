"""What must happen in one step inside Redis, in Lua.

Positions are compared as text (the longer number is the greater), as Lua's numbers are not exact enough for them.
"""

from artery.store.redis_link import Script

_ORDER = """
local function lower_number(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local function lower(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-?(%d*)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-?(%d*)$')
  if a_ms ~= b_ms then return lower_number(a_ms, b_ms) end
  return lower_number(a_seq == '' and '0' or a_seq, b_seq == '' and '0' or b_seq)
end
local function pairs_of(reply)
  local fields = {}
  for i = 1, #reply, 2 do fields[reply[i]] = reply[i + 1] end
  return fields
end
local function group_of(key, name)
  if redis.call('EXISTS', key) == 0 then return nil end
  for _, reply in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local group = pairs_of(reply)
    if group['name'] == name then return group end
  end
end
"""

# Entries come as one packed argument: much cheaper to send and to take apart than thousands of small ones.
# The fence is written last, so that a refused XADD (the first one, if any) leaves nothing behind.
APPEND = Script(
    _ORDER
    + """
local writer, epoch = ARGV[1], ARGV[2]
local seen = writer ~= '' and redis.call('HGET', KEYS[2], writer)
if seen and lower_number(epoch, seen) then return redis.error_reply('FENCED ' .. seen) end
local ids = {}
for i, fields in ipairs(cmsgpack.unpack(ARGV[3])) do
  ids[i] = redis.call('XADD', KEYS[1], '*', unpack(fields))
end
if writer ~= '' and epoch ~= seen then redis.call('HSET', KEYS[2], writer, epoch) end
return ids
"""
)

# A name that comes back is simply there again.
FORGET_CONSUMERS = Script(
    _ORDER
    + """
if not group_of(KEYS[1], ARGV[1]) then return 0 end
for _, reply in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = pairs_of(reply)
  if consumer['pending'] == 0 and consumer['idle'] >= tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer['name'])
  end
end
return 1
"""
)

ACK_UP_TO = Script(
    _ORDER
    + """
local key, name, position = KEYS[1], ARGV[1], ARGV[2]
local group = group_of(key, name)
if not group then return redis.error_reply('NOGROUP') end
local head = pairs_of(redis.call('XINFO', 'STREAM', key))['last-generated-id']
if lower(head, position) then return redis.error_reply('BEYOND ' .. head) end
repeat
  local page = redis.call('XPENDING', key, name, '-', position, 1000)
  local ids = {}
  for i, held in ipairs(page) do ids[i] = held[1] end
  if #ids > 0 then redis.call('XACK', key, name, unpack(ids)) end
until #page < 1000
if lower(group['last-delivered-id'], position) then redis.call('XGROUP', 'SETID', key, name, position) end
return 1
"""
)

# XAUTOCLAIM would also take the claimer's own entries, and drop in silence those that are gone from the stream.
# A page of the pending list is looked at; the reply says where to go on.
CLAIM = Script("""
local key, name, consumer, idle_ms, limit = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local page = redis.call('XPENDING', key, name, ARGV[5], '+', 1000)
local after = #page == 1000 and '(' .. page[1000][1] or '-'
local ids, tries, found = {}, {}, {}
for _, held in ipairs(page) do
  local id, holder, idle, count = unpack(held)
  if holder ~= consumer and idle >= idle_ms then
    if #redis.call('XRANGE', key, id, id) > 0 then
      ids[#ids + 1], tries[id] = id, count + 1
    else
      found[#found + 1] = {id, false, count}
    end
    if #ids + #found == limit then after = '(' .. id break end
  end
end
if #ids > 0 then
  for _, entry in ipairs(redis.call('XCLAIM', key, name, consumer, 0, unpack(ids))) do
    found[#found + 1] = {entry[1], entry[2], tries[entry[1]]}
  end
end
return {after, found}
""")

DEAD_LETTER = Script(
    _ORDER
    + """
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then
  if not group_of(KEYS[1], ARGV[1]) then return redis.error_reply('NOGROUP') end
  return ''
end
return redis.call('XADD', KEYS[2], '*', unpack(cmsgpack.unpack(ARGV[3])[1]))
"""
)

# Take back what was just given out, unless others have gone on from there, and let the group begin elsewhere.
TAKE_BACK = Script(
    _ORDER
    + """
local key, name = KEYS[1], ARGV[1]
local group = group_of(key, name)
if not group or group['last-delivered-id'] ~= ARGV[2] then return 0 end
for i = 5, #ARGV, 1000 do redis.call('XACK', key, name, unpack(ARGV, i, math.min(i + 999, #ARGV))) end
redis.call('XGROUP', 'SETID', key, name, ARGV[3], 'ENTRIESREAD', ARGV[4])
return 1
"""
)

# Entries after a position up to the head, and before it down to another, a page each way.
COUNT = Script("""
local up = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], ARGV[2], 'COUNT', ARGV[5])
local down = redis.call('XREVRANGE', KEYS[1], ARGV[3], '(' .. ARGV[4], 'COUNT', ARGV[5])
return {#up, #up > 0 and up[#up][1] or '', #down, #down > 0 and down[#down][1] or ''}
""")

# Most of it goes by whole nodes, which is quick; the last entries one by one, so that it is known which was the newest
# to go. That, and how many had gone in all by then, is remembered: a reader that stands just there has lost nothing.
# A server that is full takes a write only after a removal, so whatever is noted is noted after that.
_CUT = """
local key, name = KEYS[1], ARGV[1]
local function cut(last)
  local rest = redis.call('XRANGE', key, '(' .. last, '+', 'COUNT', 1)
  local removed = #rest > 0 and redis.call('XTRIM', key, 'MINID', rest[1][1]) or redis.call('XTRIM', key, 'MAXLEN', 0)
  local info = pairs_of(redis.call('XINFO', 'STREAM', key))
  redis.call('HSET', KEYS[2], name, last .. ' ' .. (info['entries-added'] - info['length']))
  return removed
end
local function needed_of(going, groups)
  local needed, count = {}, 0
  for _, group in ipairs(groups) do
    for _, entry in ipairs(going) do
      if lower(group['last-delivered-id'], entry[1]) then needed[entry[1]] = true end
    end
    local held = redis.call('XPENDING', key, group['name'], going[1][1], going[#going][1], #going)
    for _, one in ipairs(held) do needed[one[1]] = true end
  end
  for _, entry in ipairs(going) do
    if needed[entry[1]] then count = count + 1 end
  end
  return count
end
"""

TRIM = Script(
    _ORDER
    + _CUT
    + """
local keep, most, page = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('EXISTS', key) == 0 then return {0, 0, 0} end

local groups, bound, bound_at = {}, '+', nil
for i = 5, #ARGV do
  local group = group_of(key, ARGV[i])
  if group then
    local at, ends = group['last-delivered-id'], group['last-delivered-id']
    local oldest = redis.call('XPENDING', key, ARGV[i])[2]
    if oldest and not lower(at, oldest) then at, ends = oldest, '(' .. oldest end
    if not bound_at or lower(at, bound_at) or at == bound_at and ends ~= at then bound_at, bound = at, ends end
    groups[#groups + 1] = group
  end
end

local removed, lost, excess = 0, 0, redis.call('XLEN', key) - keep
local free = excess > 0 and redis.call('XREVRANGE', key, bound, '-', 'COUNT', 1) or {}
if #free > 0 then
  free = free[1][1]
  if excess > page then
    removed = redis.call('XTRIM', key, 'MINID', '~', free, 'LIMIT', math.min(excess - page, 10000))
    excess = excess - removed
  end
  local going = redis.call('XRANGE', key, '-', free, 'COUNT', math.min(excess, page))
  local last = going[#going][1]
  removed = removed + cut(last)
  if last ~= free and redis.call('XLEN', key) > keep then return {removed, 0, 1} end
end

local over = most > 0 and redis.call('XLEN', key) - most or 0
if over <= 0 then return {removed, 0, 0} end
local going = redis.call('XRANGE', key, '-', '+', 'COUNT', math.min(over, page))
lost = needed_of(going, groups)
removed = removed + cut(going[#going][1])
if lost > 0 then redis.call('HINCRBY', KEYS[3], name, lost) end
return {removed, lost, over > #going and 1 or 0}
"""
)

# What goes, and the marks that say so, in one step: who dies before it has lost nothing, who dies after it has said it.
# A required group that was never made needs everything.
GIVE_UP = Script(
    _ORDER
    + _CUT
    + """
local going = redis.call('XRANGE', key, '-', ARGV[2])
if #going == 0 then return {0, 0} end
local groups, all = {}, false
for i = 4, #ARGV do
  local group = group_of(key, ARGV[i])
  if group then groups[#groups + 1] = group else all = true end
end
local lost = all and #going or needed_of(going, groups)
local removed = cut(going[#going][1])
if lost > 0 then redis.call('HINCRBY', KEYS[3], name, lost) end
for _, fields in ipairs(cmsgpack.unpack(ARGV[3])) do redis.call('XADD', KEYS[4], '*', unpack(fields)) end
return {removed, lost}
"""
)

# Entries of another log, each with its time; a time before the head's counts as the head's.
RESTORE = Script(
    _ORDER
    + """
local head = '0'
if redis.call('EXISTS', KEYS[1]) == 1 then
  head = string.match(pairs_of(redis.call('XINFO', 'STREAM', KEYS[1]))['last-generated-id'], '^(%d+)-')
end
local ids = {}
for i, row in ipairs(cmsgpack.unpack(ARGV[1])) do
  local ms = table.remove(row, 1)
  if lower_number(ms, head) then ms = head else head = ms end
  ids[i] = redis.call('XADD', KEYS[1], ms .. '-*', unpack(row))
end
return ids
"""
)

# KEYS: the stream, the marks of requeued letters, the dead letters. Marks of letters that are gone go too.
REQUEUE = Script("""
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return redis.error_reply('AGAIN') end
local oldest = redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)
if #oldest == 0 then return redis.error_reply('GONE') end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. string.match(oldest[1][1], '^(%d+)-'))
local id = redis.call('XADD', KEYS[1], '*', unpack(cmsgpack.unpack(ARGV[2])[1]))
redis.call('ZADD', KEYS[2], string.match(ARGV[1], '^(%d+)-'), ARGV[1])
return id
""")

# A script that says nothing of memory is refused before it begins while the server has no room for writes.
PROBE = Script("#!lua\nreturn 1")
