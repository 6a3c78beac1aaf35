import { EngineMonitor } from './engine/engine-monitor.ts';
import { Observer } from './engine/observer.ts';
import type { Files } from './files.ts';
import type { FleetLink } from './fleet-link.ts';
import { Capture } from './logs/capture.ts';
import { LoadMeter } from './machine/load.ts';
import { Sampler } from './metrics/sampler.ts';
import type { AgentOptions } from './options.ts';

/** What watches the machine, its engine and the containers of the agent. */
export interface Observation {
  meter: LoadMeter;
  monitor: EngineMonitor;
  observer: Observer;
  /** Keeps what containers write. */
  capture: Capture;
}

/** Watches until `stack` ends, and passes changes on to `link`. */
export function observe(
  { engine, disk, clock, log }: AgentOptions,
  { server, ledger, logs, metrics }: Pick<Files, 'ledger' | 'logs' | 'metrics'> & { server: string },
  link: FleetLink,
  stack: AsyncDisposableStack,
): Observation {
  const { runtime } = engine;
  const meter = stack.use(new LoadMeter({ clock, disk }));
  const monitor = stack.use(new EngineMonitor({ engine, clock, log }));
  const observer = stack.use(
    new Observer({
      runtime,
      server,
      ledger,
      clock,
      log,
      changed: link.changed,
      told: link.told,
      listed: link.follow,
      returned: () => {
        monitor.returned();
        link.wakeAll();
      },
      silent: (error) => monitor.silent(error),
    }),
  );
  stack.use(new Sampler({ meter, runtime, observer, store: metrics, clock, log }));
  return { meter, monitor, observer, capture: stack.use(new Capture({ runtime, store: logs, clock, log })) };
}
