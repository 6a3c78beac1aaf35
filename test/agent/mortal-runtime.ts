import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';
import type { MockEngine } from '../../agent/runtime/mock/mock-engine.ts';
import type { ContainerRuntime } from '../../agent/runtime/runtime.ts';

/** When the agent dies: at its n-th call, before the engine hears of it or after the engine did it. */
export interface Death {
  call: number;
  heard: boolean;
}

export interface MortalRuntime {
  runtime: ContainerRuntime;
  calls: () => number;
  dead: Promise<void>;
  kill: () => void;
  /** Lets what waits for an answer end, so that what is left of the dead one can be tidied up. */
  bury: () => void;
}

/** A client of the engine whose process dies: from then on no call is made and none is answered. */
export function mortalRuntime(engine: MockEngine, death: Death | undefined): MortalRuntime {
  const runtime = mockRuntime(engine);
  const died = Promise.withResolvers<void>();
  let calls = 0;
  let dead = false;
  const grave = Promise.withResolvers<never>();
  const never = grave.promise;
  never.catch(() => undefined);
  const kill = (): void => {
    dead = true;
    died.resolve();
  };
  const mortal = async (call: () => Promise<unknown>): Promise<unknown> => {
    if (dead) return never;
    calls += 1;
    if (calls !== death?.call) {
      const answer = await call();
      return dead ? never : answer;
    }
    const heard = death.heard ? call().catch(() => undefined) : undefined;
    kill();
    await heard;
    return never;
  };
  async function* stream(source: () => AsyncIterable<unknown>): AsyncGenerator {
    if (dead) await never;
    for await (const it of source()) {
      if (dead) await never;
      yield it;
    }
  }
  const handler: ProxyHandler<ContainerRuntime> = {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== 'function') return member;
      const bound = member.bind(target) as (...args: unknown[]) => unknown;
      if (name === 'output' || name === 'events')
        return (...args: unknown[]) => {
          const source = dead ? undefined : (bound(...args) as AsyncIterable<unknown>);
          return stream(() => source ?? (async function* () {})());
        };
      return (...args: unknown[]) => mortal(() => bound(...args) as Promise<unknown>);
    },
  };
  return {
    runtime: new Proxy(runtime, handler),
    calls: () => calls,
    dead: died.promise,
    kill,
    bury: () => grave.reject(new Error('The agent is dead')),
  };
}
