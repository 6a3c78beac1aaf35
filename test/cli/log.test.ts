import { expect, test } from 'vitest';
import { createServiceKey } from '../../api/auth/service-key.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { createLog } from '../../cli/log.ts';
import { joinToken } from '../harness/join-token.ts';

function lines() {
  const written: string[] = [];
  const log = createLog({ level: 'trace' }, { write: (line) => void written.push(line) });
  const last = (): Record<string, unknown> => JSON.parse(written.at(-1) ?? '');
  return { log, last, written };
}

test('SEC-60 fields that hold secrets are hidden by their names, at any depth and in children', () => {
  const { log, last, written } = lines();
  log.child({ token: 'hunter2', part: 'api' }).info(
    {
      request: { headers: { Authorization: 'Bearer hunter2', 'x-service-key': 'hunter2', accept: '*/*' } },
      list: [{ password: 'hunter2', currentPassword: 'hunter2' }],
      config: { env: { A: 'hunter2' }, build_args: { B: 'hunter2' }, join_token: 'hunter2' },
      key: 'default/application/1',
      password: true,
    },
    'said',
  );
  expect(written.join('')).not.toContain('hunter2');
  expect(last()).toMatchObject({
    part: 'api',
    token: '[redacted]',
    request: { headers: { accept: '*/*' } },
    key: 'default/application/1',
    password: true,
    msg: 'said',
  });
});

test('an error shows its kind, text, place and causes, and nothing that was attached to it', () => {
  const { log, last, written } = lines();
  const cause = Object.assign(new TypeError('below'), { config: { auth: 'hunter2' }, code: 'EAUTH' });
  const error = Object.assign(new Error('above', { cause }), { request: 'hunter2', status: 503 });
  log.error({ err: error, other: error }, 'failed');
  log.error(error, 'failed');
  expect(written.join('')).not.toContain('hunter2');
  expect(last()['err']).toMatchObject({
    type: 'Error',
    message: 'above',
    status: 503,
    stack: expect.stringContaining('log.test.ts'),
    cause: { type: 'TypeError', message: 'below', code: 'EAUTH' },
  });
  log.error({ err: new AggregateError([new Error('one')], 'all') }, 'failed');
  expect(last()['err']).toMatchObject({ errors: [{ message: 'one' }] });
});

test('SEC-60 what looks like a secret is hidden in every text', () => {
  const { log, written } = lines();
  const key = createServiceKey(systemRandom);
  const join = joinToken(crypto.randomUUID());
  const jwt = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl';
  for (const secret of [key, join, jwt]) {
    log.warn({ text: `it is ${secret}.` }, `and ${secret}`);
    log.warn({ err: new Error(`with ${secret}`) }, 'x');
  }
  log.warn('smtp://user:hunter2@mail.example.org:587 and https://ghp_hunter2@git.example/x.git');
  const text = written.join('');
  for (const secret of [key, join, jwt, 'hunter2']) expect(text).not.toContain(secret);
  expect(text).toContain('smtp://***@mail.example.org:587');
});

test('what is long, deep, cyclic or binary does not fill the log', () => {
  const { log, last, written } = lines();
  const cyclic: Record<string, unknown> = { n: 1 };
  cyclic['self'] = cyclic;
  log.info({
    cyclic,
    bytes: Buffer.alloc(1000),
    list: Array.from({ length: 500 }, (_, n) => n),
    map: new Map([[1, 2]]),
  });
  expect(written[0]!.length).toBeLessThan(2000);
  expect(last()).toMatchObject({ bytes: '[1000 bytes]', map: '[1 items]' });
});
