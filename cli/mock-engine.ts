import { systemClock } from '../agent-protocol/clock.ts';
import { MockPorts } from '../agent/ports/mock-ports.ts';
import { MockEngine } from '../agent/runtime/mock/mock-engine.ts';
import { stockImages } from '../agent/runtime/mock/mock-images.ts';
import { mockProber, mockRuntime } from '../agent/runtime/mock/mock-runtime.ts';
import type { LocalEngine } from './local-engine.ts';

/** An engine in memory, for demonstrations and tests. */
export function openEngine(): LocalEngine {
  const engine = new MockEngine(systemClock);
  stockImages(engine);
  return { runtime: mockRuntime(engine), ports: new MockPorts().publisher(), prober: mockProber(engine) };
}
