import { z } from 'zod';
import type { EngineFacts } from '../runtime.ts';
import { usableSubnets, type Pool } from './address-pools.ts';
import type { Engine } from './engine.ts';
import { freeSubnets } from './subnets.ts';

const Info = z.object({
  ServerVersion: z.string(),
  LiveRestoreEnabled: z.boolean().nullish(),
  HttpProxy: z.string().nullish(),
  HttpsProxy: z.string().nullish(),
  NoProxy: z.string().nullish(),
  DefaultAddressPools: z.array(z.object({ Base: z.string(), Size: z.int() })).nullish(),
});
const Version = z.object({ Components: z.array(z.object({ Name: z.string(), Version: z.string() })).nullish() });
const Networks = z.array(
  z.object({ IPAM: z.object({ Config: z.array(z.object({ Subnet: z.string().nullish() })).nullish() }).nullish() }),
);

/** The pools of an engine whose configuration names none (libnetwork, `ipamutils`): 31 networks. */
const usualPools: readonly Pool[] = [
  { base: '172.17.0.0/16', size: 16 },
  { base: '172.18.0.0/16', size: 16 },
  { base: '172.19.0.0/16', size: 16 },
  { base: '172.20.0.0/14', size: 16 },
  { base: '172.24.0.0/14', size: 16 },
  { base: '172.28.0.0/14', size: 16 },
  { base: '192.168.0.0/16', size: 20 },
];

const Storage = z.object({ DockerRootDir: z.string(), DriverStatus: z.array(z.array(z.string())).nullish() });
/** The driver of an engine whose images are kept by containerd (usual from 29 on), and where that keeps them. */
const containerd = { driver: 'io.containerd.snapshotter.v1', folder: '/var/lib/containerd' };

/** Its root, and that of containerd where images are there: the engine does not name the latter. */
export async function folders(engine: Engine, signal: AbortSignal): Promise<string[]> {
  const about = Storage.parse(await engine.call({ method: 'GET', path: ['info'] }, signal));
  const isApart = about.DriverStatus?.some(([, value]) => value === containerd.driver) === true;
  return isApart ? [about.DockerRootDir, containerd.folder] : [about.DockerRootDir];
}

/** See {@link EngineFacts}. */
export async function facts(engine: Engine, signal: AbortSignal): Promise<EngineFacts> {
  const [about, version, networks, spare] = await Promise.all([
    engine.call({ method: 'GET', path: ['info'] }, signal),
    engine.call({ method: 'GET', path: ['version'] }, signal),
    engine.call({ method: 'GET', path: ['networks'] }, signal),
    freeSubnets('').next(),
  ]);
  const info = Info.parse(about);
  const pools = info.DefaultAddressPools?.map(({ Base, Size }) => ({ base: Base, size: Size })) ?? usualPools;
  const taken = Networks.parse(networks).flatMap(({ IPAM }) => IPAM?.Config?.map(({ Subnet }) => Subnet ?? '') ?? []);
  return {
    version: info.ServerVersion,
    runc: Version.parse(version).Components?.find(({ Name }) => Name === 'runc')?.Version,
    liveRestore: info.LiveRestoreEnabled === true,
    proxy: { http: info.HttpProxy ?? '', https: info.HttpsProxy ?? '', none: info.NoProxy ?? '' },
    addresses: { ...usableSubnets(pools, taken), hasSpare: spare.done !== true },
  };
}
