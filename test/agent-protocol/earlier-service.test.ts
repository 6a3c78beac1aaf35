import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromEarlier, toEarlier } from '../../agent-protocol/earlier-service.ts';
import type { ServiceSpec } from '../../store/kinds/assignment.ts';
import { ServiceSpec as AnyService } from '../../store/kinds/assignment.ts';
import { WireItem, understand } from '../../agent-protocol/assignment.ts';
import { earlierItem, probeTimes, serviceSpec } from '../harness/wire-items.ts';
import { WireAssignment as EarlierAssignment } from './fixtures/without-configurations/assignment.ts';

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
/** Every service that an earlier release could describe. */
const earlierSettings = fc
  .record({
    port: optional(fc.integer({ min: 1, max: 65_535 })),
    published: fc.boolean(),
    path: optional(fc.webPath()),
    memory_bytes: optional(fc.nat()),
    nano_cpus: optional(fc.nat()),
    command: optional(fc.array(fc.string())),
    image_digest: optional(fc.string()),
    restart_token: optional(fc.string()),
    restart_policy: fc.constantFrom('always' as const, 'on-failure' as const, 'no' as const),
    grace_seconds: fc.nat(),
  })
  .map(({ path, published, ...rest }) =>
    serviceSpec(
      JSON.parse(
        JSON.stringify({
          ...rest,
          ...(published && { publish_port: rest.port }),
          ...(rest.port !== undefined && path !== undefined && { health: { path } }),
        }),
      ),
    ),
  );

describe('the settings of a service in the form of earlier releases', () => {
  it('are understood by them, and read back as what they were', () => {
    fc.assert(
      fc.property(earlierSettings, (spec) => {
        const earlier = toEarlier(spec);
        const { service: _, ...item } = { ...earlierItem('a'), spec: { ...earlier, env: { A: 'b' } }, service: 'main' };
        expect(EarlierAssignment.safeParse(item).success).toBe(true);
        expect(understand(WireItem.parse(item))?.spec).toEqual({ ...spec, configuration: { env: { A: 'b' } } });
      }),
    );
  });

  const plain = serviceSpec({ port: 8080, health: { path: '/' } });
  const probe = { type: 'http' as const, port: 8080, path: '/', ...probeTimes };
  it.each<[string, Partial<ServiceSpec>]>([
    ['a second network', { networks: [...plain.networks, { name: 'other', aliases: [] }] }],
    ['a second alias', { networks: [{ name: 'n', aliases: ['web', 'www'] }] }],
    ['no alias', { networks: [{ name: 'n', aliases: [] }] }],
    ['a second port', { ports: [...plain.ports, { name: 'admin', port: 9000 }] }],
    ['a port of another name', { ports: [{ name: 'http', port: 8080 }] }],
    ['a mount', { mounts: [{ type: 'tmpfs', path: '/tmp', size_bytes: 1, mode: 0o1777 }] }],
    ['a file', { files: [{ path: '/f', mode: 0o444, uid: 0, gid: 0 }] }],
    ['a probe of another port', { probe: { ...probe, port: 9000 } }],
    ['another interval', { probe: { ...probe, interval_seconds: 5 } }],
    ['a probe by TCP', { probe: { type: 'tcp', port: 8080, ...probeTimes } }],
    ['a probe by command', { probe: { type: 'command', command: ['true'], ...probeTimes } }],
    ['the probe of the image', { probe: { type: 'image', ...probeTimes } }],
    ['a limit of processes', { limits: { processes: 5 } }],
    ['an entrypoint', { entrypoint: ['/init'] }],
    ['a user', { user: '1000' }],
    ['a read-only root', { read_only_root: true }],
    ['a dropped capability', { capabilities: { drop: ['KILL'], add: [] } }],
    ['a stop signal', { stop_signal: 'SIGINT' }],
    ['a working directory', { working_dir: '/srv' }],
    ['a first process', { init: true }],
  ])('cannot say %s: nothing is sent in place of it', (_, change) => {
    expect(toEarlier(plain)).toBeDefined();
    expect(toEarlier({ ...plain, ...change })).toBeUndefined();
  });

  it('are understood without a time to stop, which has a default there', () => {
    const { grace_seconds: _, ...earlier } = toEarlier(serviceSpec())!;
    expect(fromEarlier(earlier)).toMatchObject({ networks: [{ name: earlier.network }], grace_seconds: 10 });
  });

  it('are not understood without variables if the instance is to run, so that it is not started without them', () => {
    const { env: _, ...spec } = earlierItem('a').spec;
    const without = { ...earlierItem('a'), spec };
    expect(understand(WireItem.parse(without))).toBeUndefined();
    expect(understand(WireItem.parse({ ...without, run: 'stopped' }))?.run).toBe('stopped');
    expect(understand(WireItem.parse({ ...without, spec: { ...spec, config: 'c' } }))?.spec).toMatchObject({
      config: 'c',
    });
  });

  it('stay as they are if they are of the present form, damaged, or of something else', () => {
    for (const spec of [plain, { type: 'service', network: 'n' }, { type: 'volume', network: 'n' }])
      expect(fromEarlier(spec)).toBe(spec);
    expect(AnyService.safeParse(fromEarlier({ type: 'service', network: 'n' })).success).toBe(false);
  });
});
