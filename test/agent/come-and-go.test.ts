import { expect, test } from 'vitest';
import { AgentWorld } from './agent-world.ts';
import { comeAndGo } from './come-and-go.ts';

test('an agent keeps neither files open nor folders for workloads that went', async () => {
  await using world = await AgentWorld.create();
  // Desired set, ledger, results, volumes and the metrics of the server.
  expect(await comeAndGo(world, 100)).toEqual({ openFiles: 5, logFolders: 0, logged: 100 });
});
