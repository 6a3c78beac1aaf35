import type { SurveyedContainer } from '../../agent-protocol/survey.ts';
import { fieldPath, parseWritten } from '../../store/faults.ts';
import { maxReplicas } from '../../store/kinds/application.ts';
import { ApplicationCreate } from '../resources/application.ts';
import type { ApplicationManifest } from './answer.ts';
import { databaseOf, referenceOf } from './image.ts';
import { shellWord } from '../../store/shell-word.ts';
import type { Unit } from './units.ts';

/** What would be refused of the manifest of a unit; `field` is that of the request. */
export interface Refusal {
  field: string;
  message: string;
}

/** An id that stands for the project, which is chosen later. */
const anyProject = '00000000-0000-4000-8000-000000000000';

/**
 * The body of `POST /applications` that makes an application of a unit, but for the project and the values of its
 * variables. It was parsed as a request is.
 */
export function manifestOf(unit: Unit, serverId: string): ApplicationManifest | { refused: Refusal } {
  const { first, all, origin, name } = unit;
  const port = portOf(first);
  const health = first.health?.path === undefined || first.health.port !== port ? undefined : first.health.path;
  const running = all.filter(({ state }) => state === 'running').length;
  const command = first.command === undefined ? undefined : commandText(first.command);
  const memory = memoryText(first.memory_bytes);
  const cpus = cpuText(first.nano_cpus);
  const manifest: ApplicationManifest = {
    name,
    server_id: serverId,
    app_type: port !== undefined && databaseOf(first.image) === undefined ? 'web' : 'worker',
    source_type: 'image',
    image_url: referenceOf(first.image) ?? '',
    replicas: Math.min(Math.max(running, 1), maxReplicas),
    // a swarm starts its containers again by itself
    restart_policy: origin.swarmService === undefined ? restartOf(first.restart) : 'always',
    ...(port !== undefined && { exposed_port: port }),
    ...(health !== undefined && { healthcheck_path: health }),
    ...(command !== undefined && { start_command: command }),
    ...(memory !== undefined && { memory_limit: memory }),
    ...(cpus !== undefined && { cpu_limit: cpus }),
  };
  const parsed = parseWritten(ApplicationCreate, { ...manifest, project_id: anyProject }, 'The application');
  if ('data' in parsed) return manifest;
  const [fault] = parsed.faults;
  return { refused: { field: fieldPath(fault?.path ?? []), message: fault?.rule ?? 'is not valid' } };
}

/**
 * The port that the program listens on: the one that a port of the server leads to, else the one that labels name for a proxy,
 * else the only one that its image names. A database that no port of the server leads to has none: it is asked by name.
 */
function portOf({ ports, labels, exposed, image }: SurveyedContainer): number | undefined {
  const published = ports.find(({ protocol, server_port: port }) => protocol === 'tcp' && port > 0);
  if (published !== undefined) return published.port;
  const named = Object.entries(labels).find(([name]) => name.endsWith('.loadbalancer.server.port'));
  if (named !== undefined && /^\d{1,5}$/.test(named[1])) return Number(named[1]);
  return exposed.length === 1 && databaseOf(image) === undefined ? exposed[0] : undefined;
}

function restartOf(policy: string): ApplicationManifest['restart_policy'] {
  switch (policy) {
    case 'always':
    case 'unless-stopped':
      return 'always';
    case 'on-failure':
      return 'on-failure';
    default:
      return 'no';
  }
}

/** The words of a command as one text, which `parseCommand` takes apart again. */
function commandText(words: readonly string[]): string | undefined {
  if (words.length === 0) return undefined;
  return words.map(shellWord).join(' ');
}

/** Bytes in the largest unit that has no fraction; `undefined`: no limit. */
function memoryText(bytes: number): string | undefined {
  if (bytes <= 0) return undefined;
  const units = [
    ['g', 1024 ** 3],
    ['m', 1024 ** 2],
    ['k', 1024],
  ] as const;
  const [unit, size] = units.find(([, one]) => bytes % one === 0) ?? ['b', 1];
  return `${bytes / size}${unit}`;
}

/** `undefined`: no limit, or one that an application cannot have. */
function cpuText(nanoCpus: number): string | undefined {
  const cpus = Number((nanoCpus / 1e9).toFixed(6));
  return cpus < 0.01 || cpus > 256 ? undefined : String(cpus);
}
