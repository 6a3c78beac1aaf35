import { expect, test } from 'vitest';
import { AgentWorld } from '../agent/agent-world.ts';
import { comeAndGo } from '../agent/come-and-go.ts';

test('5,000 workloads that came and went leave an agent as it was', async () => {
  await using world = await AgentWorld.create();
  expect(await comeAndGo(world, 5_000)).toEqual({ openFiles: 5, logFolders: 0, logged: 5_000 });
}, 900_000);
