import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createAuthority } from '../harness/certificates.ts';
import { until } from '../harness/until.ts';
import { startSystemdMachine } from './systemd-machine.ts';

const root = join(import.meta.dirname, '../..');
/** Where the machine has this checkout, read only. */
const release = '/opt/setpoint-release';

test('the commands of the page run a control plane under systemd, with secrets of root alone, that waits for its store', async () => {
  await using stack = new AsyncDisposableStack();
  const authority = stack.use(await createAuthority());
  const certificate = await authority.issue('etcd');
  const packages = await realpath(join(root, 'node_modules'));
  const mounts = [`${root}:${release}:ro`, `${packages}:${packages}:ro`].flatMap((it) => ['--volume', it]);
  const further = ['etcd-server', 'libatomic1', 'util-linux'];
  const machine = stack.use(await startSystemdMachine('bookworm', { further, more: mounts }));
  const run = async (line: string): Promise<string> => {
    const ended = await machine.run(line);
    expect(ended, `${line}\n${ended.stderr}`).toMatchObject({ code: 0 });
    return ended.stdout;
  };
  const journal = async (): Promise<string> =>
    (await machine.run('journalctl -u setpoint-server -o cat --no-pager -n 40')).stdout;
  await run('systemctl disable --now etcd');
  await run(`ln -sfn ${release} /opt/setpoint && ln -s /opt/setpoint/cli/setpoint /usr/local/bin/setpoint`);
  await run('mkdir -p /etc/setpoint && install -m 700 -o etcd -d /etc/etcd');
  await machine.copy(certificate.ca, '/etc/setpoint/etcd-ca.pem');
  await machine.copy(certificate.cert, '/etc/setpoint/etcd.pem');
  await machine.copy(certificate.key, '/etc/setpoint/etcd-key.pem');
  await run('cd /etc/setpoint && chown root:root * && chmod 644 etcd-ca.pem etcd.pem && chmod 600 etcd-key.pem');
  await run('cp /etc/setpoint/*.pem /etc/etcd && chown etcd /etc/etcd/*');
  await run(`printf 'ETCD_%s\\n' ${etcdSettings.join(' ')} >/etc/default/etcd`);

  // the store is away: more starts than systemd allows by default
  const [install, access] = [await fromPage('install -m 600 /dev/null'), await fromPage('service.d/etcd.conf')];
  const withoutPassword = access
    .split('\n')
    .filter((line) => !/password|PASSWORD|restart/.test(line))
    .join('\n');
  await run(withoutPassword);
  const settings = [
    'SETPOINT_STORE=etcd://localhost:2379',
    'SETPOINT_ETCD_CA=/etc/setpoint/etcd-ca.pem',
    'SETPOINT_ETCD_CERT=/etc/setpoint/etcd.pem',
  ];
  const untilReady = install.replace(/^curl.*$/m, '').replace(/^END$/m, [...settings, 'END'].join('\n'));
  expect(untilReady).toContain(settings[0]);
  await run(untilReady);
  expect(await run('stat -c %a:%U /etc/setpoint/server.env')).toBe('600:root\n');
  await until(
    'it was started more often than systemd allows by default',
    async () => Number(await run('systemctl show --property NRestarts --value setpoint-server')) > 7,
    { timeoutMs: 90_000, explain: journal },
  );
  await run('systemctl start etcd');
  await run('curl -fsS --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:7070/readyz').catch(
    async (error: unknown) => {
      throw new Error(await journal(), { cause: error });
    },
  );
  expect(await run('stat -c %a:%U /etc/setpoint/etcd-key.pem')).toBe('600:root\n');

  expect(await run('setpoint tenant create acme')).toContain('https://setpoint.example.com/acme\n');
  const asOther = await machine.run('setpriv --reuid 65534 --regid 65534 --clear-groups setpoint tenant list');
  expect(asOther).toMatchObject({ code: 1, stderr: expect.stringContaining('run this as root') });
});

const etcdSettings = [
  'LISTEN_CLIENT_URLS=https://127.0.0.1:2379',
  'ADVERTISE_CLIENT_URLS=https://localhost:2379',
  'CLIENT_CERT_AUTH=true',
  'TRUSTED_CA_FILE=/etc/etcd/etcd-ca.pem',
  'CERT_FILE=/etc/etcd/etcd.pem',
  'KEY_FILE=/etc/etcd/etcd-key.pem',
];

/** The commands of `docs/operations.md` with that text in them, as its readers copy them. */
async function fromPage(part: string): Promise<string> {
  const page = await readFile(join(root, 'docs/operations.md'), 'utf8');
  const blocks = [...page.matchAll(/^( *)```sh\n([^]*?)^\1```$/gm)];
  const [found, ...others] = blocks.filter(([block]) => block.includes(part));
  if (found === undefined || others.length > 0) throw new Error(`The page has not one block with ${part}`);
  const [, indent = '', commands = ''] = found;
  return commands.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
}
