import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Printed } from '../harness/command-line.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let owner: Client;
let cli: CommandLine;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  cli = await CommandLine.open();
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const environment = () => ({
  SETPOINT_URL: world.url,
  SETPOINT_TENANT: 'default',
  SETPOINT_TOKEN: owner.token ?? '',
});
const run = (argv: readonly string[], stdin = ''): Promise<Printed> => cli.run(argv, stdin, environment());
const create = (name: string, ...more: string[]) => ['create', 'ssh-key', name, ...more];

/** A key as its user made it, with its file and its fingerprint. */
async function keygen(name: string, ...more: string[]): Promise<{ file: string; line: string; fingerprint: string }> {
  const file = join(cli.home, name);
  expect((await cli.runProgram('ssh-keygen', ['-q', '-C', '', '-f', file, ...more])).code).toBe(0);
  const line = (await readFile(`${file}.pub`, 'utf8')).trim();
  const { out } = await cli.runProgram('ssh-keygen', ['-l', '-f', `${file}.pub`]);
  return { file, line, fingerprint: out.split(' ')[1] ?? '' };
}

describe('setpoint create ssh-key', () => {
  it('makes an Ed25519 key, and prints the line for authorized_keys', async () => {
    const { out, err, code } = await run(create('fleet'));
    expect([err, code]).toEqual(['', 0]);
    expect(out).toMatch(
      /^ssh-key fleet is created \(ed25519\)\nAdd this line to ~\/\.ssh\/authorized_keys of the user [^\n]+:\n {2}ssh-ed25519 [A-Za-z0-9+/=]+ fleet\n$/,
    );
    const line = await cli.file('line.pub', out.trim().split('\n').at(-1)?.trim() ?? '');
    const known = await cli.runProgram('ssh-keygen', ['-l', '-f', line]);
    const { data } = await owner.get('/settings/ssh-keys?q=fleet');
    expect(known.out).toBe(`256 ${data[0].fingerprint} fleet (ED25519)\n`);
  });

  it.each([
    ['ed25519', []],
    ['ecdsa', ['-b', '384']],
    ['rsa', ['-b', '2048']],
    ['rsa', ['-b', '2048', '-m', 'PEM']],
    ['rsa', ['-b', '2048', '-m', 'PKCS8']],
  ])('imports what ssh-keygen made as %s %j, and asks for its passphrase', async (type, more) => {
    const name = ['imported', type, ...more].join('');
    const { file, line, fingerprint } = await keygen(name, '-t', type, '-a', '2', '-N', 'open sesame', ...more);
    const wrong = await run(create(name, '--private-key', file), 'simsim\n');
    expect(wrong).toMatchObject({ code: 1, out: '' });
    expect(wrong.err).toContain('passphrase does not open private_key');
    const none = await run(create(name, '--private-key', file));
    expect(none.err).toContain(`Passphrase of ${file} is missing: give it as a line of standard input`);
    const made = await run(create(name, '--private-key', file), 'open sesame\n');
    expect(made).toMatchObject({ code: 0, err: '' });
    expect(made.out).toContain(`  ${line} ${name}\n`);
    const { data } = await owner.get(`/settings/ssh-keys?q=${name}`);
    expect(data[0].fingerprint).toBe(fingerprint);
  });

  it('does not show a passphrase that is typed', { tags: [longTag] }, async () => {
    const { file } = await keygen('typed', '-t', 'ed25519', '-a', '2', '-N', 'open sesame');
    const typing = cli.atTerminal(create('typed', '--private-key', file), environment());
    await typing.prints(`Passphrase of ${file}: `);
    typing.type('open sesame\r');
    const { code, out } = await typing.ended();
    expect(out).toContain('ssh-key typed is created');
    expect(out).not.toContain('open sesame');
    expect(code).toBe(0);
  });

  it('keeps a password, which no argument can hold', async () => {
    const made = await run(create('old-box', '--password'), 'open sesame\n');
    expect(made).toEqual({ code: 0, out: 'ssh-key old-box is created (password)\n', err: '' });
    const argument = await run(create('other-box', '--password', 'open sesame'), '');
    expect(argument.code).toBe(1);
    expect(argument.err).toContain('too many arguments');
  });

  it('refuses what is no key, and two sources', async () => {
    const large = await cli.file('large', 'x'.repeat(70_000));
    expect((await run(create('large', '--private-key', large))).err).toContain(
      `${large} is no private key: it has 70000 bytes`,
    );
    const absent = await run(create('absent', '--private-key', join(cli.home, 'absent')));
    expect(absent.err).toBe(`Cannot read the private key ${join(cli.home, 'absent')}: there is no such file\n`);
    expect((await run(create('two', '--private-key', large, '--generate', 'rsa'))).err).toContain(
      'cannot be used with',
    );
    const { data } = await owner.get('/settings/ssh-keys?q=large');
    expect(data).toEqual([]);
  });
});

it('the secret of an SSH key is replaced, and its new line is printed', async () => {
  const { data: key } = await owner.post('/settings/ssh-keys', { name: 'worn' });
  const { file, line, fingerprint } = await keygen('fresh', '-t', 'ed25519', '-N', '');
  const set = await run(['set', 'ssh-key', 'worn', '--private-key', file]);
  expect(set).toMatchObject({ code: 0, err: '', out: expect.stringContaining(`  ${line} worn\n`) });
  const now = async () => (await owner.get(`/settings/ssh-keys/${key.id}`)).data;
  expect((await now()).fingerprint).toBe(fingerprint);
  expect((await run(['set', 'ssh-key', 'worn', '--generate', 'ed25519'])).out).toMatch(/^ssh-key worn is changed\n/);
  expect((await now()).fingerprint).not.toBe(fingerprint);
  const password = await run(['set', 'ssh-key', 'worn', '--password', '--name', 'new'], 'open sesame\n');
  expect(password).toEqual({ code: 0, out: 'ssh-key new is changed\n', err: '' });
  expect(await now()).toMatchObject({ name: 'new', type: 'password' });
  const { public_key } = await now();
  expect((await run(['set', 'ssh-key', 'new', '--name', 'newer'])).out).toBe('ssh-key newer is changed\n');
  expect(await now()).toMatchObject({ name: 'newer', public_key });
});

it(
  'SSH keys are listed, described with their servers, and deleted once none uses them',
  { tags: [longTag] },
  async () => {
    const { data: key } = await owner.post('/settings/ssh-keys', { name: 'listed', description: 'for the fleet' });
    const { data: server } = await owner.post('/servers', { name: 'one', sshKeyId: key.id });
    expect((await run(['get', 'ssh-keys', 'listed'])).out).toMatch(
      new RegExp(`^NAME +TYPE +SERVERS +FINGERPRINT +AGE +ID\nlisted +ed25519 +1 +${RegExp.escape(key.fingerprint)} `),
    );
    const described = await run(['describe', 'ssh-key', 'listed']);
    expect(described.out).toContain(server.id);
    expect(described.out).toContain(key.public_key);
    const refused = await run(['delete', 'ssh-key', 'listed', '--yes']);
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toContain('The SSH key is used by one: give these servers another ssh_key_id, or none');
    await owner.put(`/servers/${server.id}`, { ssh_key_id: null });
    expect(await run(['delete', 'ssh-key', 'listed', '--yes'])).toEqual({
      code: 0,
      out: 'ssh-key listed is deleted\n',
      err: '',
    });
  },
);
