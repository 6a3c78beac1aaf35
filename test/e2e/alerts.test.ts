import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../cli/client.ts';
import { openEtcd } from '../../store/etcd/open.ts';
import { put } from '../contract/store-steps.ts';
import { startEtcd } from '../harness/etcd.ts';
import { owner } from '../harness/installation.ts';
import { freePort, Program } from '../harness/program.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

const execute = promisify(execFile);
const rules = join(import.meta.dirname, '../../manifests/observability/alerts.yaml');
const quotaBytes = 16 * 1024 * 1024;

const Rules = z.object({
  data: z.object({
    groups: z.array(
      z.object({
        rules: z.array(
          z.object({
            name: z.string(),
            query: z.string(),
            state: z.string(),
            health: z.string(),
            lastError: z.string().optional(),
          }),
        ),
      }),
    ),
  }),
});

/** A real Prometheus with the rules of the manifests, which scrapes one replica every second. */
async function startPrometheus(folder: string, target: string) {
  const port = await freePort();
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [rules],
    scrape_configs: [{ job_name: 'setpoint', static_configs: [{ targets: [target] }] }],
  };
  const path = join(folder, 'prometheus.yml');
  await writeFile(path, JSON.stringify(config)); // JSON is YAML
  const child = spawn(
    'prometheus',
    [`--config.file=${path}`, `--storage.tsdb.path=${folder}/tsdb`, `--web.listen-address=127.0.0.1:${port}`],
    { stdio: 'ignore' },
  );
  const get = async (query: string): Promise<unknown> => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${query}`);
    return answer.json();
  };
  return {
    rules: async () => Rules.parse(await get('rules')).data.groups.flatMap((group) => group.rules),
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** The names of the metrics in an expression. */
const metricsIn = (query: string): string[] => query.match(/\bsetpoint_\w+/g) ?? [];

test(
  'the alerts are of metrics that a replica has, and show a full store until the manual’s remedy was applied',
  { tags: [longTag] },
  async () => {
    await using cleanup = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-alerts-'));
    cleanup.defer(() => rm(folder, { recursive: true, force: true }));
    await execute('promtool', ['check', 'rules', rules]);
    const etcd = cleanup.use(await startEtcd([`--quota-backend-bytes=${quotaBytes}`]));
    const target = `127.0.0.1:${await freePort()}`;
    const flags = ['--listen', target, '--store', `etcd://${etcd.host}`, '--data', join(folder, 'server')];
    const replica = new Program(['server', ...flags, '--etcd-quota-bytes', String(quotaBytes)], join(folder, 'log'));
    replica.start();
    cleanup.defer(() => replica.kill());
    const readiness = async (): Promise<number> => (await fetch(`http://${target}/readyz`)).status;
    await until('the replica is ready', async () => (await readiness()) === 200, { explain: () => replica.log() });
    const prometheus = cleanup.use(await startPrometheus(folder, target));
    const state = async (name: string): Promise<string | undefined> =>
      (await prometheus.rules()).find((rule) => rule.name === name)?.state;
    const client = createClient({ server: `http://${target}`, tenant: 'default' });
    await client.request('POST', '/api/v1/auth/register', { ...owner, first_name: 'Olive', last_name: 'Owner' });

    const loaded = await until('all rules were evaluated', async () => {
      const all = await prometheus.rules();
      return all.length > 0 && all.every(({ health }) => health === 'ok') && all;
    });
    const text = await (await fetch(`http://${target}/metrics`)).text();
    const exported = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
    const asked = loaded.flatMap(({ query }) => metricsIn(query));
    expect(asked.length).toBeGreaterThan(12);
    expect(asked.filter((name) => !exported.has(name))).toEqual([]);
    expect(await state('SetpointStoreFull')).toBe('inactive');

    await using store = await openEtcd({ hosts: [etcd.host] });
    const fill = async (): Promise<void> => {
      for (let n = 0; n < 30; n++) await put(store, `/filler/${n}`, 'x'.repeat(1_000_000));
    };
    await expect(fill()).rejects.toThrow('space exceeded');
    await until('the alert fires', async () => (await state('SetpointStoreFull')) === 'firing');
    await until('the replica is not ready', async () => (await readiness()) === 503);
    const refused = await fetch(`http://${target}/default/api/v1/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(owner),
    });
    expect(refused.status).toBe(503);
    expect(await refused.text()).toContain('nothing was written');

    // the procedure of docs/operations.md, "A store that is full"
    await etcd.etcdctl('del', '--prefix', '/filler/');
    const status = JSON.parse(await etcd.etcdctl('endpoint', 'status', '-w', 'json'));
    await etcd.etcdctl('compact', String(status[0].Status.header.revision));
    await etcd.etcdctl('defrag');
    await etcd.etcdctl('alarm', 'disarm');
    await until('the replica is ready again', async () => (await readiness()) === 200);
    await until('the alert is over', async () => (await state('SetpointStoreFull')) === 'inactive');
    await client.request('POST', '/api/v1/auth/login', owner);
  },
);
