import { flushCompileCache } from 'node:module';
import { startControlPlane } from './control-plane.ts';
import { createLog } from './log.ts';
import { parseConfig } from './parse-config.ts';
import { ServerConfig } from './server-config.ts';
import { stopped } from './stop-signal.ts';

/** `setpoint server`: runs a replica of the control plane until the signal aborts. */
export async function runServer(options: unknown, signal: AbortSignal): Promise<void> {
  const config = parseConfig(ServerConfig, options);
  const log = createLog({ level: config.logLevel });
  await using plane = await startControlPlane(config, log);
  log.info({ url: plane.url, store: config.store }, 'Control plane is ready');
  flushCompileCache(); // a process that is killed would save nothing
  await stopped(signal);
  log.info('Control plane stops');
}
