import { Survey } from '../../agent-protocol/survey.ts';
import type { SurveyedContainer, SurveyedVolume } from '../../agent-protocol/survey.ts';

/** An image that a registry knows, with a digest that follows from its name. */
export function imageOf(name: string, changes: Partial<SurveyedContainer['image']> = {}): SurveyedContainer['image'] {
  const digest = Buffer.from(name).toString('hex').padEnd(64, '0').slice(0, 64);
  const repository = name.replace(/:[^/]*$/, '');
  return {
    name,
    id: `sha256:${digest}`,
    digests: [`${repository}@sha256:${digest}`],
    is_here: true,
    is_shared: false,
    ...changes,
  };
}

/** A running container that was made by `docker run NAME nginx:1.27`, with these changes. */
export function surveyed(name: string, changes: Partial<SurveyedContainer> = {}): SurveyedContainer {
  return {
    id: Buffer.from(name).toString('hex').padEnd(64, '0').slice(0, 64),
    name,
    state: 'running',
    exit_code: 0,
    started_at: '2030-01-01T00:00:00Z',
    image: imageOf('nginx:1.27'),
    labels: {},
    env: [],
    ports: [],
    exposed: [80],
    mounts: [],
    networks: ['bridge'],
    restart: 'always',
    memory_bytes: 0,
    nano_cpus: 0,
    settings: [],
    ...changes,
  };
}

/** A container of a compose project. */
export function composed(
  project: string,
  service: string,
  changes: Partial<SurveyedContainer> = {},
): SurveyedContainer {
  return surveyed(`${project}-${service}-1`, {
    networks: [`${project}_default`],
    ...changes,
    labels: {
      'com.docker.compose.project': project,
      'com.docker.compose.service': service,
      ...changes.labels,
    },
  });
}

/** A port of all addresses of the server that leads to a port of the container. */
export function published(
  serverPort: number,
  port: number,
  changes: Partial<SurveyedContainer['ports'][number]> = {},
): SurveyedContainer['ports'][number] {
  return { port, protocol: 'tcp', server_port: serverPort, address: '0.0.0.0', ...changes };
}

export function mounted(source: string, path: string, readOnly = false): SurveyedContainer['mounts'][number] {
  return { type: 'volume', source, path, read_only: readOnly };
}

export function volumeOf(name: string, changes: Partial<SurveyedVolume> = {}): SurveyedVolume {
  return { name, driver: 'local', is_anonymous: false, ...changes };
}

/** The answer of an agent that found these. */
export function surveyOf(
  containers: readonly SurveyedContainer[],
  volumes: readonly SurveyedVolume[] = [],
  truncated = false,
): Survey {
  return Survey.parse({ containers, volumes, truncated });
}
