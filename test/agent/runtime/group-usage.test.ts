import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { groupUsage } from '../../../agent/runtime/docker/group-usage.ts';

const id = 'c0ffee'.repeat(10);
let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-groups-'));
});
afterEach(() => rm(root, { recursive: true }));

async function files(contents: Record<string, string>): Promise<void> {
  for (const [path, content] of Object.entries(contents)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
}

const read = () => groupUsage(id, 7, { processes: join(root, 'proc'), groups: join(root, 'groups') });

const traffic = {
  'proc/7/net/dev':
    'Inter-|   Receive\n face |bytes\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth0: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n  eth1: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n',
};

const second = {
  ...traffic,
  'proc/7/cgroup': `0::/system.slice/docker-${id}.scope\n`,
  [`groups/system.slice/docker-${id}.scope/cpu.stat`]: 'usage_usec 2500000\nuser_usec 1\n',
  [`groups/system.slice/docker-${id}.scope/memory.current`]: '5000\n',
  [`groups/system.slice/docker-${id}.scope/memory.stat`]: 'anon 1\nactive_file 7\ninactive_file 1000\n',
};

test('the second version of control groups shows what a container has used', async () => {
  await files({
    ...second,
    [`groups/system.slice/docker-${id}.scope/io.stat`]:
      '8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n',
  });
  expect(read()).toEqual({
    cpuMs: 2500,
    memoryBytes: 4000,
    readBytes: 11,
    writtenBytes: 22,
    receivedBytes: 101,
    sentBytes: 202,
  });
});

test('a controller that is off leaves its counters out', async () => {
  await files(second);
  expect(read()).toMatchObject({ cpuMs: 2500, readBytes: undefined, writtenBytes: undefined });
});

test('the first version of control groups shows the same', async () => {
  const group = `docker/${id}`;
  await files({
    ...traffic,
    'proc/7/cgroup': `4:cpu,cpuacct:/${group}\n3:memory:/${group}\n2:blkio:/${group}\n0::/${group}\n`,
    [`groups/cpuacct/${group}/cpuacct.usage`]: '2500000000\n',
    [`groups/memory/${group}/memory.usage_in_bytes`]: '5000\n',
    [`groups/memory/${group}/memory.stat`]: 'inactive_file 1\ntotal_inactive_file 1000\n',
    [`groups/blkio/${group}/blkio.throttle.io_service_bytes`]: '8:0 Read 10\n8:0 Write 20\n8:16 Read 1\nTotal 31\n',
  });
  expect(read()).toEqual({
    cpuMs: 2500,
    memoryBytes: 4000,
    readBytes: 11,
    writtenBytes: 20,
    receivedBytes: 101,
    sentBytes: 202,
  });
});

test('another process that has the number of the container’s by now is not measured', async () => {
  await files({ ...second, 'proc/7/cgroup': '0::/user.slice/session.scope\n' });
  expect(read()).toBeUndefined();
});

test('a process that is gone is not measured', () => {
  expect(read()).toBeUndefined();
});
