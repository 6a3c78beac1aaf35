import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { ImageScript } from '../../agent/runtime/mock/script.ts';
import { startMirror } from '../../store/store-mirror.ts';
import { tenant, World } from '../harness/world.ts';
import type { Machine } from '../harness/world.ts';
import { longTag } from '../layer-report.ts';

/** It answers once it has started. */
const postgres: ImageScript = {
  runs: { programs: ({ runningMs }) => ({ exitCode: runningMs < 3000 ? 2 : 0 }), stopsOn: 'SIGINT' },
};

/** How many of each there are. */
const towns = [
  { databases: 4, schedules: 12, tags: [] },
  { databases: 20, schedules: 100, tags: [longTag] },
];

for (const { databases, schedules, tags } of towns)
  test(`${schedules} schedules of one minute make a backup each, and a server sends one at a time`, { tags }, () =>
    fire(databases, schedules),
  );

async function fire(databases: number, schedules: number): Promise<void> {
  await using world = await World.create(47);
  world.startPlane();
  await world.until('somebody leads', () => world.leading !== undefined);
  const machines = [await world.addServer('one'), await world.addServer('two')];
  for (const { engine } of machines) engine.addImage('postgres:17', postgres);
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const bucket = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
  const secrets = { access_key: 'AKIDEXAMPLE0', secret_key: 'sesame' };
  await world.must('POST', '/settings/backup-destinations', { name: 'store', ...bucket, ...secrets });
  const ids: string[] = [];
  for (let n = 0; n < databases; n += 1) {
    const server_id = machines[n % machines.length]?.server;
    const fields = { project_id: project.id, server_id, name: `orders-${n}`, type: 'postgres' };
    ids.push((await world.must('POST', '/databases', fields)).data.id);
  }
  const isRunning = async (id: string) => (await world.repo.get('database', id))?.observed?.phase === 'running';
  await world.until('all databases run', async () => (await Promise.all(ids.map(isRunning))).every(Boolean));
  for (let n = 0; n < schedules; n += 1)
    await world.must('POST', '/backup-schedules', {
      database_id: ids[n % ids.length],
      cron_expression: '30 3 * * *',
      retention_count: 10,
    });
  await world.rest();

  await using mirror = startMirror({ store: world.store, clock: world.clock, log: pino({ level: 'silent' }) });
  await mirror.ready;
  const view = mirror.tenant(tenant);
  const most = new Map<Machine, number>(machines.map((machine) => [machine, 0]));
  const areCompleted = () => {
    for (const machine of machines) {
      const tasks = view.by('assignment', 'server', machine.server);
      const sent = tasks.filter(
        ({ desired, observed }) => desired.workload_kind === 'backup' && observed?.phase === 'running',
      );
      most.set(machine, Math.max(most.get(machine) ?? 0, sent.length));
    }
    return view.list('backup').filter(({ observed }) => observed?.phase === 'completed').length >= schedules;
  };
  await world.until('each schedule has its backup', areCompleted, 2 * 86_400_000);
  expect([...most.values()]).toEqual([1, 1]);
  const made = view.list('backup');
  expect(new Set(made.map(({ desired }) => desired.schedule_id)).size).toBe(schedules);
  expect(made).toHaveLength(schedules);
}
