import type { z } from 'zod';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { RunConfig } from '../../store/kinds/application.ts';
import type { ServiceSpec } from '../../store/kinds/assignment.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Service } from '../rollout/services.ts';
import type { App, Deployment } from './world.ts';

/** An instance that is to be made. */
export interface Instance {
  app: App;
  deployment: Deployment;
  server: ReadonlyResource<'server'> | undefined;
  service: Service;
  slot: number;
  restartToken: string | undefined;
}

/** The names that lead to the instances of an application, for all workloads of its environment. */
export function hostNamesOf({ desired: { internal_id, host_name } }: App): string[] {
  return host_name === undefined ? [internal_id] : [internal_id, host_name];
}

/** What decides whether an instance is ready. Without a check of the application the image may have one. */
export function readinessOf({
  healthcheck: check,
  healthcheck_path: path,
  exposed_port,
}: DeepReadonly<RunConfig>): Pick<z.input<typeof ServiceSpec>, 'probe' | 'image_check'> {
  if (check === undefined) {
    if (path === undefined || exposed_port === undefined) return { image_check: true };
    return { probe: { type: 'http', port: exposed_port, path } };
  }
  switch (check.type) {
    case 'none':
      return {};
    case 'http':
    case 'tcp': {
      const port = check.port ?? exposed_port;
      return port === undefined ? {} : { probe: { ...check, port } };
    }
    case 'command':
      return { probe: { ...check, command: [...check.command] } };
    case 'image':
      return { probe: check };
  }
}
