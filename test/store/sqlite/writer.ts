import { writeSync } from 'node:fs';
import { isUnavailable } from '../../../store/errors.ts';
import { revision } from '../../../store/revision.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Store } from '../../../store/store.ts';

/** A process that writes a store until it is killed, and prints a line for each acknowledged commit. */
const [, , path = '', mode = '', run = ''] = process.argv;

function print(line: string): void {
  writeSync(1, `${line}\n`);
}

const store = await openSqlite({ path });
print(`open ${await store.revision()}`);

switch (mode) {
  case 'hold':
    setInterval(() => undefined, 1000);
    break;
  case 'lease':
    await holdLease(store);
    break;
  case 'die-before-answer':
    await dieBeforeAnswer(store);
    break;
  case 'full':
    await fillUp(store);
    break;
  default:
    await Promise.all(Array.from({ length: 8 }, (_, worker) => writeForEver(store, worker)));
}

async function writeForEver(on: Store, worker: number): Promise<void> {
  for (let n = 0; ; n++) {
    const name = `${run}-${worker}-${n}`;
    const { revision } = await on.txn({
      if: [{ key: `/x/${name}`, is: 'absent' }],
      then: [
        { put: `/x/${name}`, value: name },
        { put: `/y/${name}`, value: name },
        { put: '/last', value: name },
      ],
    });
    print(`${name} ${revision}`);
  }
}

async function holdLease(on: Store): Promise<void> {
  const lease = await on.lease(60_000);
  const { revision } = await on.txn({
    if: [],
    then: [
      { put: '/leased/a', value: '1', lease: lease.id },
      { put: '/leased/b', value: '1', lease: lease.id },
    ],
  });
  print(`leased ${revision}`);
  setInterval(() => undefined, 1000);
}

/** The commit is durable when the promise is about to be resolved, and no answer is sent. */
async function dieBeforeAnswer(on: Store): Promise<void> {
  const answer = on.txn({ if: [{ key: '/once', is: 'absent' }], then: [{ put: '/once', value: 'child' }] });
  const events = on.watch({ prefix: '/once' }, revision(1), new AbortController().signal);
  for await (const batch of events) if (batch.events.length > 0) process.kill(process.pid, 'SIGKILL');
  await answer;
}

/** Groups of three that fit on the disk less and less. */
async function fillUp(on: Store): Promise<void> {
  const value = 'x'.repeat(200_000);
  for (let group = 0; group < 100; group++) {
    const members = [0, 1, 2].map((k) => `${group}-${k}`);
    const results = await Promise.allSettled(
      members.map((name) =>
        on.txn({
          if: [],
          then: [
            { put: `/x/${name}`, value },
            { put: `/y/${name}`, value: name },
          ],
        }),
      ),
    );
    for (const [k, result] of results.entries()) {
      const isClear = result.status === 'rejected' && isUnavailable(result.reason);
      print(
        `${members[k]} ${result.status === 'fulfilled' ? 'done' : isClear ? 'unavailable' : String(result.reason)}`,
      );
    }
    if (results.some((result) => result.status === 'rejected')) {
      const readable = await on.list({ prefix: '/y/' });
      print(`readable ${readable.entries.map((entry) => entry.value).join(',')}`);
      break;
    }
  }
  await on.close();
  process.exit(0);
}
