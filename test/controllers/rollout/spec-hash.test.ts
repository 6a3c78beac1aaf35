import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { buildHash, serviceHash } from '../../../controllers/rollout/spec-hash.ts';
import type { BuildSpec, ServiceSpec } from '../../../store/kinds/assignment.ts';
import { BuildSpec as AnyBuild, ServiceSpec as AnyService } from '../../../store/kinds/assignment.ts';
import { probeTimes, serviceSpec } from '../../harness/wire-items.ts';

const version = '6f1d2a52-8f0e-4a61-9b57-0a4ac61ee7a1';
const place = { network: 'sp-0123456789ab', alias: 'web-abc123' };
const plain = serviceSpec(place);
const full = serviceSpec({
  ...place,
  slot: 2,
  image: 'setpoint/web-abc123:7',
  command: ['node', 'a b'],
  port: 8080,
  memory_bytes: 268_435_456,
  nano_cpus: 500_000_000,
});
const build: BuildSpec = {
  type: 'build',
  repository_url: 'https://git.example/web.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: { B: 'two', A: 'one' },
  commit: 'c'.repeat(40),
  image: 'setpoint/web-abc123:7',
  deadline_seconds: 1800,
  attempt: 1,
};

describe('the hash of a service', () => {
  it.each([
    [plain, '07c1fe2f71ca75040884bd67528906529e62ebb8409713e906f2e31f5e92dc80'],
    [full, '35136516fa642a6f7ccc376711bd744eef4c40584602cbb5d28a16c270bfd317'],
  ])('is that of the first release, so that no upgrade restarts what runs', (spec, golden) => {
    expect(serviceHash(version, spec)).toBe(golden);
  });

  it('of settings that came later is the same in all releases', () => {
    const spec = serviceSpec({
      ...place,
      mounts: [
        { type: 'volume', volume: 'sp-v', path: '/data', read_only: true, copy: true },
        { type: 'tmpfs', path: '/tmp', size_bytes: 1024, mode: 0o700 },
      ],
      files: [{ path: '/etc/app.conf', mode: 0o400, uid: 1000, gid: 1000 }],
      user: '1000:1000',
      read_only_root: true,
      capabilities: { drop: ['ALL'], add: ['SETUID', 'CHOWN'] },
      stop_signal: 'SIGINT',
      entrypoint: ['/init'],
      limits: { processes: 64, shm_bytes: 1024 },
    });
    expect(serviceHash(version, spec)).toBe('2ed0687f08e953c626c83423d4b2dddce69463cd22fa0d92610b5f7f64f310e5');
  });

  const changes: Record<string, Partial<ServiceSpec>> = {
    slot: { slot: 1 },
    image: { image: 'example/web:2' },
    command: { command: ['x'] },
    entrypoint: { entrypoint: ['x'] },
    networks: { networks: [...plain.networks, { name: 'other', aliases: [] }] },
    'an alias': { networks: [{ name: place.network, aliases: [place.alias, 'db'] }] },
    ports: { ports: [{ name: 'main', port: 1 }] },
    mounts: { mounts: [{ type: 'tmpfs', path: '/tmp', size_bytes: 1, mode: 0o777 }] },
    files: { files: [{ path: '/f', mode: 0o444, uid: 0, gid: 0 }] },
    limits: { limits: { oom_score_adj: 1 } },
    user: { user: 'nobody' },
    read_only_root: { read_only_root: true },
    capabilities: { capabilities: { drop: ['KILL'], add: [] } },
    stop_signal: { stop_signal: 'SIGINT' },
    working_dir: { working_dir: '/srv' },
    init: { init: true },
    granted_capabilities: { granted_capabilities: ['NET_RAW'] },
  };

  it.each(Object.entries(changes))('changes with %s, as only a new container can follow', (_, change) => {
    expect(serviceHash(version, { ...plain, ...change })).not.toBe(serviceHash(version, plain));
  });

  const unhashed: Partial<ServiceSpec> = {
    image_digest: 'sha256:1',
    config: { kind: 'deployment', id: version },
    probe: { type: 'http', port: 8080, path: '/', ...probeTimes },
    restart_policy: 'no',
    restart_token: 'again',
    grace_seconds: 3,
    image_check: true,
    min_healthy_seconds: 3,
    drain_seconds: 3,
    ingress: { http_port: 80, https_port: 443, acme: {} },
  };

  it('does not change with what a running container can follow', () => {
    expect(serviceHash(version, { ...plain, ...unhashed })).toBe(serviceHash(version, plain));
    const published = { ...full, ports: [{ name: 'main', port: 8080, publish: 80 }] };
    expect(serviceHash(version, published)).toBe(serviceHash(version, full));
  });

  it('counts a setting of a mount or a file only where it differs from its default', () => {
    const hashOf = (settings: Partial<ServiceSpec>) => serviceHash(version, serviceSpec({ ...place, ...settings }));
    const volume = { type: 'volume' as const, volume: 'v', path: '/v', read_only: false, copy: true };
    const canonical = '{"mounts":[{"path":"/v","type":"volume","volume":"v"}]}';
    const first = JSON.stringify({ type: 'service', slot: 0, image: plain.image, ...place });
    const text = `["${version}",${first},${canonical}]`;
    expect(hashOf({ mounts: [volume] })).toBe(createHash('sha256').update(text).digest('hex'));
    expect(hashOf({ mounts: [{ ...volume, copy: false }] })).not.toBe(hashOf({ mounts: [volume] }));
  });

  it('judges every setting of a service', () => {
    const judged = ['type', ...Object.keys(changes), ...Object.keys(unhashed)].filter((name) => name !== 'an alias');
    expect(new Set(judged)).toEqual(new Set(Object.keys(AnyService.shape)));
  });

  it('changes with the version', () => {
    expect(serviceHash('another', plain)).not.toBe(serviceHash(version, plain));
  });
});

describe('the hash of a build', () => {
  const { commit: _, ...ofHead } = build;

  it.each([
    [build, '7ee1edebe594ced85c957ecf4db3ce5446278a3652dbedc1d5fe0b4032e1793f'],
    [{ ...ofHead, build_args: {} }, 'fa425d01f99065662644a496aef5b9cfa12b1192d22da81529d2899628b68870'],
  ])('is that of the first release, so that no upgrade begins a running build anew', (spec, golden) => {
    expect(buildHash(version, spec)).toBe(golden);
  });

  it('covers the names of the arguments and not their values, which are sealed anew when keys rotate', () => {
    const sealed = { $sealed: 'key.nonce.text', for: 'application/x/source.build_args.A' };
    expect(buildHash(version, { ...build, build_args: { A: sealed, B: sealed } })).toBe(buildHash(version, build));
    expect(buildHash(version, { ...build, build_args: { A: 'one' } })).not.toBe(buildHash(version, build));
  });

  it('changes with every other setting', () => {
    for (const name of Object.keys(AnyBuild.shape).filter((it) => it !== 'type' && it !== 'build_args'))
      expect(buildHash(version, { ...build, [name]: 'x' } as BuildSpec), name).not.toBe(buildHash(version, build));
  });
});
