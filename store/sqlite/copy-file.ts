import { createReadStream, createWriteStream } from 'node:fs';
import { lchown, link, lstat, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pipeline } from 'node:stream/promises';
import { syncFolderOf } from '../sync-folder.ts';
import { tryLock } from './lock.ts';
import { heldBy } from './open.ts';

/** How long to wait for another connection to the same file. */
const busyMs = 5000;

/**
 * Writes one consistent copy of a store, readable for its owner only, while another process writes on. Keeps this
 * process busy until it is done, so that it is none that serves others. Returns the bytes of the copy.
 *
 * @throws Error if there is a file of that name, no room for the copy, or a fault in it; then nothing is left behind.
 */
export async function backUpFile(from: string, to: string): Promise<number> {
  const draft = `${to}.partial`;
  const file = await open(draft, 'wx', 0o600).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error;
    const what = `Cannot write ${to} as another backup writes it; if none does, remove ${draft}`;
    throw new Error(what, { cause: error });
  });
  try {
    if (await isThere(to)) throw new Error(`Cannot write ${to} as there is such a file: name another`);
    {
      using db = new DatabaseSync(from, { readOnly: true, timeout: busyMs });
      db.prepare('VACUUM INTO ?').run(draft);
    }
    checkStore(draft, to);
    await file.sync();
    await rename(draft, to);
    await syncFolderOf(to);
    return (await file.stat()).size;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

/**
 * Puts a copy in the place of a store that no process uses. The copy gets the owner of the folder. The former store is
 * kept beside it, under a name with the time `now`, which is returned; `undefined`: there was none.
 *
 * @throws Unavailable if a process has the store; Error if the copy is none of a store, or is not whole. The store is
 *   then as it was.
 */
export async function restoreFile(from: string, to: string, now: Date): Promise<string | undefined> {
  const real = (await isThere(to)) ? await realpath(to) : join(await realpath(dirname(to)), basename(to));
  await refuseLog(from);
  await refuseLink(`${real}-lock`);
  const lock = tryLock(`${real}-lock`);
  if (lock === undefined) throw heldBy(to, `${real}-marker`);
  const draft = `${real}.restoring`;
  try {
    await giveToOwner(`${real}-lock`);
    await rm(draft, { force: true });
    await pipeline(createReadStream(from), createWriteStream(draft, { flags: 'wx', mode: 0o600, flush: true }));
    await giveToOwner(draft);
    checkStore(draft, from);
    const former = (await isThere(real)) ? await keepFormer(real, now) : undefined;
    // The log belongs to the former file, and without the marker the store counts as one that was put back.
    for (const beside of ['-wal', '-shm', '-marker']) await rm(`${real}${beside}`, { force: true });
    await rename(draft, real);
    await syncFolderOf(real);
    return former;
  } finally {
    await rm(draft, { force: true });
    lock.release();
  }
}

/** @throws Error if the copy has a log beside it, whose writes would be left out */
async function refuseLog(from: string): Promise<void> {
  const log = `${from}-wal`;
  const { size } = (await isThere(log)) ? await stat(log) : { size: 0 };
  if (size > 0)
    throw new Error(
      `${log} has writes that ${from} lacks: take them in by sqlite3 ${from} 'PRAGMA wal_checkpoint(TRUNCATE)', and restore it again`,
    );
}

/** @throws Error if the path is a link, which the server's user may have made to lead root elsewhere */
async function refuseLink(path: string): Promise<void> {
  const found = await lstat(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (found?.isSymbolicLink() === true) throw new Error(`${path} is a link: look who made it, and remove it`);
}

/** Gives the file of a store a second name, which keeps it, and with it the log that could not be written into it. */
async function keepFormer(path: string, now: Date): Promise<string> {
  try {
    using db = new DatabaseSync(path, { timeout: busyMs });
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // a damaged file, which may be why it is replaced, is kept as it is
  }
  const former = `${path}.before-${now.toISOString().replaceAll(':', '-')}`;
  if (await isThere(`${path}-wal`)) await link(`${path}-wal`, `${former}-wal`);
  await link(path, former);
  return former;
}

/** @throws Error if the file is not that of a store, or is damaged. Names it as `name`. */
function checkStore(path: string, name: string): void {
  const fault = faultOf(path);
  if (fault !== undefined) throw new Error(`${name} is not the whole file of a store: ${fault}`);
}

function faultOf(path: string): string | undefined {
  try {
    using db = new DatabaseSync(path);
    const answer = String(db.prepare('PRAGMA quick_check(1)').get()?.['quick_check']);
    if (answer !== 'ok') return answer;
    const revision = db.prepare("SELECT v FROM meta WHERE k = 'revision'").get();
    return revision === undefined ? 'it has no revision' : undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** What root makes in a folder of another user would be closed to that user. */
async function giveToOwner(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(dirname(path));
  await lchown(path, uid, gid);
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: unknown) => {
      if (codeOf(error) === 'ENOENT') return false;
      throw error;
    },
  );
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
