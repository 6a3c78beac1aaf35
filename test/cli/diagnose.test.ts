import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { machineChecks } from '../../agent-protocol/diagnosis.ts';
import { Town } from '../harness/command-line.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let town: Town;
beforeAll(async () => {
  town = await Town.start();
  await town.login();
});
afterAll(() => town[Symbol.asyncDispose]());

interface Shown {
  status: string;
  checks: { name: string; status: string; message: string; remediation: string | null }[];
}

/** What the command prints for programs, with its exit code. */
async function shown(...argv: string[]): Promise<Shown & { code: number | null }> {
  const { out, code } = await town.cli.run(['diagnose', ...argv, '--output', 'json']);
  return { ...(JSON.parse(out) as Shown), code }; // the form is what the test looks at
}

it('a server is examined by its agent, and the exit code shows whether a check failed', async () => {
  const found = await shown('one');
  expect(found.checks.map(({ name }) => name)).toEqual(['agent', 'agent_version', 'clock_skew', ...machineChecks]);
  for (const name of ['agent', 'agent_version', 'clock_skew', 'engine'])
    expect(
      found.checks.find((one) => one.name === name),
      name,
    ).toMatchObject({ status: 'pass' });
  expect(found.code).toBe(found.status === 'fail' ? 1 : 0);
  const { out } = await town.cli.run(['diagnose', 'one']);
  expect(out).toMatch(/^check +status +message\nagent +pass +The agent is connected\n/i);
  for (const { name, remediation } of found.checks) if (remediation !== null) expect(out).toContain(`\n${name}: `);
});

it('a server is healed, as far as Setpoint may', { tags: [longTag] }, async () => {
  const healed = await town.cli.run(['heal', 'one', '--check', 'orphaned_networks', 'orphaned_volumes']);
  expect(healed).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/nothing to heal|orphaned_/) });
  const refused = await town.cli.run(['heal', 'one', '--check', 'memory']);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('checks')]);
});

it('the control plane examines itself', async () => {
  const found = await shown();
  const of = (name: string) => found.checks.find((one) => one.name === name);
  const sound = ['store_integrity', 'store_history', 'mirror', 'leader', 'replica_addresses', 'signing_keys', 'clock'];
  for (const name of [...sound, 'replicas']) expect(of(name), name).toMatchObject({ status: 'pass' });
  expect(found.code).toBe(found.status === 'fail' ? 1 : 0);
});

it('a server whose agent is away fails, and says what to do', { tags: [longTag] }, async () => {
  await town.agent.kill();
  await until('the agent is away', async () => (await shown('one')).checks[0]?.status === 'fail', {
    timeoutMs: 60_000,
  });
  const { code, out } = await town.cli.run(['diagnose', 'one']);
  expect(code).toBe(1);
  expect(out).toContain('agent: Check that the machine is up and runs its agent');
  expect(await town.cli.run(['heal', 'one'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('runs its agent'),
  });
  const [tunnel] = (await town.client.request('GET', '/api/v1/servers/tunnel-status/all')) as { connected: boolean }[];
  expect(tunnel).toMatchObject({ connected: false, latency_ms: null, last_error: { message: expect.any(String) } });
});
