import { access, chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { lookAt, runAsRoot } from '../../../controllers/ssh/as-root.ts';
import { connect } from '../../../controllers/ssh/connection.ts';
import type { SshConnection } from '../../../controllers/ssh/connection.ts';
import { requirementsOf } from '../../../controllers/ssh/requirements.ts';
import { startSshd } from '../../harness/sshd.ts';

const never = new AbortController().signal;

/** Stands in for sudo, whose rules the test makes: it answers as the real one does, and keeps what it was answered. */
const sudo = `#!/bin/sh
here=\${0%/*}
. "$here/rules"
prompt='Password: '
while :; do
  case $1 in
    -k) shift ;;
    -n) never=yes; shift ;;
    -S) [ -z "$no_input" ] || { echo "sudo: invalid option -- 'S'" >&2; exit 1; }; shift ;;
    -p) prompt=$(printf %s "$2" | sed 's/%%/%/g'); shift 2 ;;
    --) shift; break ;;
    *) break ;;
  esac
done
as_root() { PATH=/usr/sbin:/usr/bin:/sbin:/bin exec "$@"; }
[ -z "$tty" ] || { echo 'sudo: sorry, you must have a tty to run sudo' >&2; exit 1; }
case " $free " in *" $1 "*) as_root "$@" ;; esac
[ -z "$never" ] || { echo 'sudo: a password is required' >&2; exit 1; }
printf %s "$lecture" >&2
for try in 1 2 3; do
  printf '%s' "$prompt" >&2
  IFS= read -r given || { echo 'sudo: no password was provided' >&2; exit 1; }
  printf '%s\\n' "$given" >>"$here/given"
  [ "$given" != "$password" ] || as_root "$@"
  echo "Sorry, $given is wrong, try again." >&2
done
echo 'sudo: 3 incorrect password attempts' >&2
exit 1
`;

/** A connection to a real sshd, as a user who is not root and has that sudo. */
async function machine(rules: Readonly<Record<string, string>>, settings: readonly string[] = []) {
  await using started = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-sudo-'));
  started.defer(() => rm(folder, { recursive: true }));
  const file = (name: string): string => join(folder, name);
  const lines = Object.entries(rules).map(([name, value]) => `${name}='${value}'\n`);
  await writeFile(file('rules'), lines.join(''));
  await writeFile(file('sudo'), sudo);
  await writeFile(file('id'), '#!/bin/sh\necho 1000\n');
  for (const name of ['sudo', 'id']) await chmod(file(name), 0o755);
  const path = `SetEnv PATH=${folder}:/usr/sbin:/usr/bin:/sbin:/bin`;
  const sshd = started.use(await startSshd({ settings: [path, ...settings] }));
  const { port, username, privateKey } = sshd;
  const login = { type: 'key', privateKey } as const;
  const connection: SshConnection = started.use(await connect({ address: '127.0.0.1', port, username, login }, never));
  const all = started.move();
  return {
    connection,
    file,
    /** What sudo was answered. */
    given: async () => (await readFile(file('given'), 'utf8').catch(() => '')).split('\n').slice(0, -1),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

const withPassword = (password: string) => ({ type: 'password', password }) as const;
const privileges = (facts: Awaited<ReturnType<typeof lookAt>>) =>
  requirementsOf(facts, { login: 'password', now: 0, otherServer: undefined }).find(
    ({ name }) => name === 'privileges',
  );
const shows = async (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

describe('a sudo that asks for the password', () => {
  test.each([
    ['at once', {}],
    ['after a lecture', { lecture: 'We trust you have received the usual lecture: Password: ' }],
  ])('gets it as its answer, %s, and root the script', async (_, rules) => {
    await using it = await machine({ password: 'pä ss "word" $HOME', ...rules });
    const login = withPassword('pä ss "word" $HOME');
    const facts = await lookAt(it.connection, login, never);
    expect(facts).toMatchObject({ kernel: 'Linux', sudo: 'asks' });
    expect(privileges(facts)?.status).toBe('pass');
    const script = 'echo out; echo err >&2; exit 7\n';
    const ran = await runAsRoot(it.connection, { facts, login, script }, never);
    expect(ran).toEqual({ code: 7, stdout: 'out\n', stderr: 'err\n' });
    expect(await it.given()).toEqual([login.password, login.password]);
  });

  test('is told a wrong one once, and what it says is shown without that', async () => {
    await using it = await machine({ password: 'right' });
    const facts = await lookAt(it.connection, withPassword('wrong one'), never);
    expect(await it.given()).toEqual(['wrong one']);
    expect(facts).toMatchObject({ kernel: 'Linux', sudo: 'refuses' });
    expect(privileges(facts)).toMatchObject({
      status: 'fail',
      message:
        'sudo does not take the password of the login. It said: Sorry, *** is wrong, try again. sudo: no password was provided',
    });
    const later = { facts: { ...facts, sudo: 'asks' as const }, login: withPassword('wrong one'), script: 'true\n' };
    await expect(runAsRoot(it.connection, later, never)).rejects.toMatchObject({
      code: 'no_root',
      message: expect.stringContaining('It said: Sorry, *** is wrong'),
    });
  });
});

describe('a sudo that does not ask for the password', () => {
  test.each([
    ['and runs sh for all', []],
    // a shell that tells what it runs tells the command of sudo first
    ['in a shell that is traced', ['ForceCommand sh -xvc "$SSH_ORIGINAL_COMMAND"']],
  ])('does not get it, %s', async (_, settings) => {
    await using it = await machine({ password: 'x', free: 'sh' }, settings);
    const trace = it.file('trace');
    // a line that root would run
    const login = withPassword(`touch ${trace}`);
    const facts = await lookAt(it.connection, login, never);
    const asks = { facts: { ...facts, sudo: 'asks' as const }, login, script: 'echo out\n' };
    const ran = await runAsRoot(it.connection, asks, never);
    expect(ran).toMatchObject({ code: 0, stdout: 'out\n' });
    expect(await shows(trace)).toBe(false);
    expect(ran.stderr).not.toContain(trace);
    expect(await it.given()).toEqual([]);
    // it is known before, as what is asked for is what runs
    expect(facts.sudo).toBe('free');
  });

  test.each([
    ['as it wants a terminal', { tty: 'yes' }, 'sudo runs from a terminal only (requiretty), and there is none'],
    ['as it reads no input', { no_input: 'yes' }, "sudo runs nothing. It said: sudo: invalid option -- 'S'"],
  ])('does not get it, %s', async (_, rules, message) => {
    await using it = await machine({ password: 'right', ...rules });
    const facts = await lookAt(it.connection, withPassword('right'), never);
    expect(facts.sudo).toBe('fails');
    expect(privileges(facts)).toMatchObject({ status: 'fail', message });
    expect(await it.given()).toEqual([]);
  });
});
