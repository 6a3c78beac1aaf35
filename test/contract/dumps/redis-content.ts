import type { Content } from './database-dump.ts';

const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const library = "#!lua name=mine\nredis.register_function('twice', function(_, args) return args[1] * 2 end)";

/** Commands in the protocol of Redis, which takes any byte in any argument. */
function commands(...each: readonly (readonly (string | Buffer)[])[]): Buffer {
  const parts = each.flatMap((words) => [
    Buffer.from(`*${words.length}\r\n`),
    ...words.flatMap((word) => [`$${Buffer.byteLength(word)}\r\n`, word, '\r\n'].map((part) => Buffer.from(part))),
  ]);
  return Buffer.concat(parts);
}

const many = (prefix: string): string[] => Array.from({ length: 2000 }, (_, n) => `${prefix}${n}`);

const fill = commands(
  ['SET', bytes, bytes],
  ['SET', '', ''],
  ['SET', 'number', '-9223372036854775808'],
  ['SET', 'long', 'ab'.repeat(100_000)],
  ['SET', 'line\nbreak "é" 🦆', 'x'],
  ['SET', 'lasting', 'x', 'PXAT', '4102444800123'],
  ['RPUSH', 'list', '1', '', bytes, 'z'.repeat(10_000)],
  ['RPUSH', 'long list', ...many('v')],
  ['SADD', 'numbers', '3', '1', '2'],
  ['SADD', 'set', ...many('m')],
  ['HSET', 'hash', 'a', '1', bytes, bytes],
  ['HSET', 'large hash', ...many('f')],
  ['HPEXPIREAT', 'hash', '4102444800123', 'FIELDS', '1', 'a'],
  ['ZADD', 'ranking', '1.5', 'a', '-inf', 'b', '1e300', 'c'],
  ['ZADD', 'large ranking', ...many('').flatMap((n) => [n, `m${n}`])],
  ['GEOADD', 'places', '13.361389', '38.115556', 'Palermo'],
  ['PFADD', 'counted', ...many('c')],
  ['SETBIT', 'bits', '1000', '1'],
  ['XADD', 'stream', '1-1', 'field', bytes],
  ['XADD', 'stream', '2-1', 'field', ''],
  ['XADD', 'stream', '3-1', 'a', 'b', 'c', 'd'],
  ['XDEL', 'stream', '2-1'],
  ['XGROUP', 'CREATE', 'stream', 'group', '0'],
  ['XREADGROUP', 'GROUP', 'group', 'consumer', 'COUNT', '1', 'STREAMS', 'stream', '>'],
  ['XGROUP', 'CREATE', 'no stream', 'idle', '$', 'MKSTREAM'],
  ['FUNCTION', 'LOAD', library],
  ['SELECT', '7'],
  ['SET', 'number', 'of another database'],
  ['SELECT', '15'],
  ['ZADD', 'last', '1', 'x'],
);

/** Reads every key of the databases by the commands of its type, in an order of its own. */
const script = `
local function pairsOf(flat) local all = {} for i = 1, #flat, 2 do all[#all + 1] = flat[i] .. '\\0' .. flat[i + 1] end table.sort(all) return all end
local function sorted(list) table.sort(list) return list end
local read = {
  string = function(key) return {redis.call('GET', key)} end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return sorted(redis.call('SMEMBERS', key)) end,
  hash = function(key) return {pairsOf(redis.call('HGETALL', key)), redis.call('HPEXPIRETIME', key, 'FIELDS', 1, 'a')} end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key)
    local groups, pending = {}, {}
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      groups[#groups + 1] = group
      pending[#pending + 1] = redis.call('XPENDING', key, group[2])
    end
    return {redis.call('XRANGE', key, '-', '+'), redis.call('XINFO', 'STREAM', key), groups, pending}
  end,
}
local lines = {}
for _, database in ipairs({0, 7, 15}) do
  redis.call('SELECT', database)
  for _, key in ipairs(sorted(redis.call('KEYS', '*'))) do
    local type = redis.call('TYPE', key).ok
    local content = redis.sha1hex(cmsgpack.pack(read[type](key)))
    lines[#lines + 1] = database .. ' ' .. redis.sha1hex(key) .. ' ' .. type .. ' ' .. redis.call('PEXPIRETIME', key) .. ' ' .. content
  end
end
return lines
`;

const asking = ['redis-cli', '-h', '127.0.0.1', '-e'];

export const redisContent: Content = {
  fill,
  fillAs: [...asking, '--pipe'],
  looks: [
    { command: [...asking, 'EVAL', script, '0'], input: '' },
    { command: [...asking, 'FUNCTION', 'LIST', 'WITHCODE'], input: '' },
    { command: [...asking, 'FCALL', 'twice', '0', '21'], input: '' },
  ],
  login: ({ password }, host) => ({
    env: { REDISCLI_AUTH: password },
    command: ['redis-cli', '-h', host, '-e', 'PING'],
  }),
};
