import { fork } from 'node:child_process';
import { once } from 'node:events';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { openEtcd } from '../../../store/etcd/open.ts';
import { keys } from '../../../store/keys.ts';
import { startMirror } from '../../../store/store-mirror.ts';
import type { Mirror } from '../../../store/mirror.ts';
import type { Store } from '../../../store/store.ts';
import { startCandidate } from '../../harness/candidate.ts';
import { startEtcd } from '../../harness/etcd.ts';
import type { EtcdServer } from '../../harness/etcd.ts';
import type { LeaderMessage } from '../../harness/leader-process.ts';
import { TcpProxy } from '../../harness/tcp-proxy.ts';
import { until } from '../../harness/until.ts';

const clock = systemClock;
const running = new AsyncDisposableStack();
let etcd: EtcdServer;

interface Replica {
  store: Store;
  mirror: Mirror;
  clock: typeof clock;
}

beforeAll(async () => {
  etcd = running.use(await startEtcd());
});
afterAll(() => running.disposeAsync());

async function replica(stack: AsyncDisposableStack, host: string): Promise<Replica> {
  const store = stack.use(await openEtcd({ hosts: [host] }));
  const mirror = stack.use(startMirror({ store, clock, log: pino({ level: 'silent' }) }));
  await mirror.ready;
  return { store, mirror, clock };
}

test.concurrent('a leader that is cut off ends its term before another leads, and what it sent before fails', async () => {
  await using stack = new AsyncDisposableStack();
  const proxy = stack.use(await TcpProxy.start(etcd.port));
  const far = await replica(stack, proxy.host);
  const near = await replica(stack, etcd.host);
  const name = 'cut-off';
  const term = await stack.use(startCandidate(far, { name, replica: 'far' })).term(0);
  const successor = stack.use(startCandidate(near, { name, replica: 'near' }));
  const order: string[] = [];
  term.signal.addEventListener('abort', () => order.push('over'));
  proxy.holdRequests();
  const next = await successor.term(0);
  order.push('next');
  expect(order).toEqual(['over', 'next']);
  expect(next.epoch).toBeGreaterThan(term.epoch);
  // on its way when the wire is mended; whether its sender still hears of it does not matter
  const write = () => far.store.txn({ if: [term.fence], then: [{ put: keys.meta(name), value: 'late' }] });
  const held = write().then(
    ({ committed }) => committed,
    () => 'unavailable',
  );
  proxy.releaseRequests();
  expect(await held).not.toBe(true);
  const answer = await until('the old leader reaches etcd again', () => write().catch(() => undefined));
  expect(answer).toMatchObject({ committed: false, failed: [{ guard: term.fence }] });
  expect(await near.store.get(keys.meta(name))).toBeUndefined();
  const own = await near.store.txn({ if: [next.fence], then: [{ put: keys.meta(name), value: 'own' }] });
  expect(own.committed).toBe(true);
});

test.concurrent('a leader that wakes as a process after its lease expired writes nothing more', async () => {
  await using stack = new AsyncDisposableStack();
  const name = 'frozen';
  const program = new URL('../../harness/leader-process.ts', import.meta.url).pathname;
  const child = stack.adopt(fork(program, [etcd.host, name], { execArgv: [] }), async (it) => {
    const exited = once(it, 'exit');
    it.kill('SIGKILL');
    await exited;
  });
  const heard = async (): Promise<LeaderMessage> => (await once(child, 'message'))[0] as LeaderMessage; // all it says
  const { leading } = (await heard()) as { leading: number }; // its first word
  const near = await replica(stack, etcd.host);
  const successor = stack.use(startCandidate(near, { name, replica: 'near' }));
  child.kill('SIGSTOP');
  const next = await successor.term(0);
  expect(next.epoch).toBeGreaterThan(leading);
  const answer = heard();
  child.send(keys.meta(name));
  child.kill('SIGCONT');
  expect(await answer).not.toEqual({ committed: true });
  expect(await near.store.get(keys.meta(name))).toBeUndefined();
  expect(successor.isLeading()).toBe(true);
});
