import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const execute = promisify(execFile);
const rules = join(import.meta.dirname, '../../manifests/observability/alerts.yaml');

test('a server that is lost is told of until it is back or deleted, however long that takes', async () => {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-alerts-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const told = (eval_time: string, isTold: boolean) => ({
    eval_time,
    alertname: 'SetpointAgentsLost',
    exp_alerts: isTold
      ? [
          {
            exp_labels: { severity: 'warning', tenant: 'default' },
            exp_annotations: {
              summary: '1 servers of the tenant default have no agent that is connected',
              action: '`setpoint get servers` names the servers that are out of reach.',
            },
          },
        ]
      : [],
  });
  const series = (instance: string) => ({
    series: `setpoint_servers_lost{job="setpoint",instance="${instance}",tenant="default"}`,
    values: '0x10 1x100 0x20', // lost after ten minutes, and back after another hundred
  });
  const tests = {
    rule_files: [rules],
    tests: [
      {
        interval: '1m',
        input_series: [series('a'), series('b')],
        alert_rule_test: [told('12m', false), told('20m', true), told('100m', true), told('115m', false)],
      },
    ],
  };
  const path = join(folder, 'tests.yml');
  await writeFile(path, JSON.stringify(tests)); // JSON is YAML
  const { stdout } = await execute('promtool', ['test', 'rules', path]);
  expect(stdout).toContain('SUCCESS');
});
