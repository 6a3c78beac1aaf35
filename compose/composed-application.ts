import { maxReplicas } from '../store/kinds/application.ts';
import { isWriting } from '../store/kinds/composed-service.ts';
import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import { ComposeFault, inWords, refusal } from './fault.ts';
import { mainServiceOf } from './main-service.ts';
import { parseCompose } from './parse.ts';
import type { ComposeInput, Composition } from './parse.ts';

/** A compose file, and the settings of its application that it is read with. */
export interface ComposeSettings extends ComposeInput {
  /** The service that requests are for; absent: see `main-service.ts`. */
  service: string | undefined;
  exposedPort: number | undefined;
}

/** What the file of an application declares: services, the one that requests are for first. */
export interface ComposedApplication extends Pick<Composition, 'wanted'> {
  services: readonly PlainComposedService[];
  /** What means something else here than to compose. */
  notes: readonly string[];
}

/** Most bytes of all services of a file, as their variables and files may repeat values. */
const maxBytes = 512 * 1024;

/** Reads the compose file of an application. Pure. @throws ComposeFault that names each key which is refused */
export function composedApplication({ service, exposedPort, ...input }: ComposeSettings): ComposedApplication {
  const { services, errors, warnings, wanted } = parseCompose(input);
  if (errors.length > 0) throw refusal(errors);
  const main = mainServiceOf(services, { name: service, port: exposedPort });
  if (main === undefined) {
    const names = services.map(({ name }) => name).join(', ');
    throw new ComposeFault('compose_service', 'unknown', `The compose file has no such service: it has ${names}`);
  }
  return {
    services: [main, ...services.filter((it) => it !== main)],
    notes: [...warnings.map(inWords), `Requests are for ${main.name}, and so are replicas of the application`],
    wanted,
  };
}

/** Requires that the services can run, with so many instances of the first. @throws ComposeFault */
export function requireComposedRoom(services: readonly PlainComposedService[], replicas: number): void {
  const [main, ...others] = services;
  if (main !== undefined && replicas > 1 && isWriting(main)) {
    const message = `${main.name} writes to a volume: with it there can be one replica only`;
    throw new ComposeFault('replicas', 'exclusive', message);
  }
  const all = others.reduce((sum, it) => sum + it.replicas, replicas);
  if (all > maxReplicas) {
    const message = `It has ${all} instances in all, and at most ${maxReplicas} are allowed`;
    throw new ComposeFault('compose_file', 'limit', message);
  }
  if (JSON.stringify(services).length > maxBytes) {
    const message = `Its services have more than ${maxBytes / 1024} KiB in all: shorten values`;
    throw new ComposeFault('compose_file', 'limit', message);
  }
}
