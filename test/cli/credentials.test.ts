import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { loadConnection, saveContext } from '../../cli/credentials.ts';

let home: string;
let path: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'setpoint-credentials-'));
  path = join(home, '.config', 'setpoint', 'credentials.json');
});
afterEach(() => rm(home, { recursive: true, force: true }));

const connection = { name: 'one', server: 'http://127.0.0.1:7070', tenant: 'default', token: 'secret' };
const modeOf = async (of: string) => ((await stat(of)).mode & 0o777).toString(8);

it('SEC-59: a token is kept where nobody but its owner can read it', async () => {
  await saveContext(connection, path);
  expect([await modeOf(path), await modeOf(join(path, '..'))]).toEqual(['600', '700']);
  expect(await loadConnection({}, path)).toEqual({ server: connection.server, tenant: 'default', token: 'secret' });
});

it('a later login closes a file that was open to others, and leaves nothing else beside it', async () => {
  await saveContext(connection, path);
  await chmod(path, 0o644);
  await saveContext({ ...connection, token: 'another' }, path);
  expect(await modeOf(path)).toBe('600');
  expect(await readdir(join(path, '..'))).toEqual(['credentials.json']);
});
