import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { definitionOf } from '../../../store/definition.ts';
import { Sealed } from '../../../store/kinds/fields.ts';
import { decodeDesired, encodeDesired } from '../../../store/record.ts';
import { probeTimes } from '../../harness/wire-items.ts';

const kind = definitionOf('assignment');
const ids = Array.from({ length: 5 }, (_, n) => `0000000${n}-0000-4000-8000-000000000000`);
const spec = {
  type: 'service',
  slot: 3,
  image: 'example/web:1',
  image_digest: 'sha256:aa',
  env: { TOKEN: { $sealed: 'key.nonce.text', for: 'application/x/config.env.TOKEN' } },
  port: 8080,
  publish_port: 9080,
  health: { path: '/healthz' },
  memory_bytes: 1024,
  nano_cpus: 5,
  restart_policy: 'always',
  restart_token: 'r1',
  grace_seconds: 10,
  network: 'sp-x',
  alias: 'web',
};
const record = {
  v: 1,
  generation: 7,
  createdAt: '2030-01-01T00:00:00.000Z',
  updatedAt: '2030-01-02T00:00:00.000Z',
  finalizers: ['agent'],
  owners: [],
  labels: {},
  desired: {
    server_id: ids[0],
    project_id: ids[1],
    environment_id: ids[2],
    workload_kind: 'application',
    workload_id: ids[3],
    workload_name: 'web',
    deployment_id: ids[4],
    run: 'running',
    spec,
    spec_hash: 'hash',
  },
};

const { deployment_id: deployment, ...same } = record.desired;
/** The present form of that record. */
const present = {
  ...same,
  service: 'main',
  version: deployment,
  spec: {
    type: 'service',
    slot: 3,
    image: 'example/web:1',
    image_digest: 'sha256:aa',
    config: { kind: 'deployment', id: deployment },
    networks: [{ name: 'sp-x', aliases: ['web'] }],
    ports: [{ name: 'main', port: 8080, publish: 9080 }],
    mounts: [],
    files: [],
    image_check: false,
    min_healthy_seconds: 10,
    drain_seconds: 0,
    probe: { type: 'http', port: 8080, path: '/healthz', ...probeTimes },
    limits: { memory_bytes: 1024, nano_cpus: 5 },
    read_only_root: false,
    capabilities: { drop: [], add: [] },
    restart_policy: 'always',
    restart_token: 'r1',
    grace_seconds: 10,
  },
};

describe('the record of an instance that repeats the variables of its deployment', () => {
  it('is read without them, and nothing else of it is different', () => {
    const { meta, desired } = decodeDesired(kind, JSON.stringify(record));
    expect(meta.generation).toBe(7);
    expect(desired).toEqual(present);
  });

  it('is written without them by the next write', () => {
    const written = encodeDesired(kind, decodeDesired(kind, JSON.stringify(record)));
    expect(written).not.toContain('$sealed');
    expect(JSON.parse(written)).toEqual({ ...record, v: 3, desired: present });
  });

  it('is, once it is written so, refused by a release that would start the instance without variables', () => {
    const written: unknown = JSON.parse(encodeDesired(kind, decodeDesired(kind, JSON.stringify(record))));
    const Earlier = z.looseObject({
      desired: z.looseObject({
        deployment_id: z.string(),
        spec: z.looseObject({ env: z.record(z.string(), Sealed).default({}), network: z.string() }),
      }),
    });
    expect(Earlier.safeParse(record).success).toBe(true);
    expect(Earlier.safeParse(written).success).toBe(false);
  });

  it('of a build keeps its arguments', () => {
    const build = {
      type: 'build',
      repository_url: 'https://git.example/web.git',
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      build_context: '.',
      build_args: { A: 'b' },
      image: 'i',
      deadline_seconds: 60,
      attempt: 1,
    };
    const old = JSON.stringify({ ...record, desired: { ...record.desired, spec: build } });
    expect(decodeDesired(kind, old).desired.spec).toEqual(build);
  });
});
