import { randomUUID } from 'node:crypto';
import { closeSync, openSync, realpathSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { StoreError } from '../errors.ts';
import type { Store } from '../store.ts';
import { Engine } from './engine.ts';
import { tryLock } from './lock.ts';
import { examineFile } from './examine-file.ts';
import { Marker, readMarker } from './marker.ts';
import { prepareSchema } from './schema.ts';
import { SqliteStore } from './sqlite-store.ts';

/** The file, or `:memory:` for a store that ends with its process. The clock drives the leases. */
export interface SqliteOptions {
  path: string;
  clock?: Clock;
}

/**
 * Opens the embedded store. The folder of the file must exist. Keys that were leased to an earlier process are deleted.
 *
 * @throws Unavailable if another process holds the file, naming it.
 */
export async function openSqlite({ path, clock = systemClock }: SqliteOptions): Promise<Store & AsyncDisposable> {
  return path === ':memory:' ? openInMemory(clock) : openFile(path, clock);
}

function openInMemory(clock: Clock): SqliteStore {
  const db = new DatabaseSync(':memory:');
  const engine = new Engine(db, prepareSchema(db, ':memory:'));
  return new SqliteStore({
    engine,
    clock,
    opening: 1,
    committed: () => undefined,
    release: () => engine.close(),
    free: async () => Infinity,
    examine: async () => ({ logBytes: 0, fault: 'unchecked' }),
  });
}

function openFile(path: string, clock: Clock): SqliteStore {
  closeSync(openSync(path, 'a', 0o600));
  const real = realpathSync(path);
  const markerPath = `${real}-marker`;
  const lock = tryLock(`${real}-lock`);
  if (lock === undefined) throw heldBy(path, markerPath);
  const cleanup = new DisposableStack();
  cleanup.defer(() => lock.release());
  try {
    const db = new DatabaseSync(real, { timeout: 1000 });
    const engine = new Engine(db, prepareSchema(db, path));
    cleanup.defer(() => engine.close());
    const marked = readMarker(markerPath);
    const marker = new Marker(markerPath);
    cleanup.defer(() => marker.close());
    const opening = engine.atomically(() => {
      const { incarnation, revision } = engine.head;
      if (marked?.incarnation !== incarnation || marked.revision > revision) engine.setIncarnation(randomUUID());
      engine.expire();
      return engine.countOpening();
    });
    marker.write(engine.head);
    const owned = cleanup.move();
    return new SqliteStore({
      engine,
      clock,
      opening,
      committed: () => marker.tryWrite(engine.head),
      release: () => owned.dispose(),
      free: async () => {
        const { bavail, bsize } = await statfs(dirname(real));
        return bavail * bsize;
      },
      examine: (bytes) => examineFile(real, bytes),
    });
  } catch (error) {
    cleanup.dispose();
    throw error;
  }
}

/** The refusal of a file that another process has; `markerPath`: what names that process. */
export function heldBy(path: string, markerPath: string): StoreError {
  const holder = readMarker(markerPath);
  const who = holder === undefined ? 'another process' : `process ${holder.pid} on ${holder.host}`;
  return new StoreError(
    `Cannot open ${path} as it is held by ${who}: one control plane uses it at a time; end that one first, or use another data directory`,
    { kind: 'unavailable' },
  );
}
