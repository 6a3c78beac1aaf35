import type { BackupProvider } from './kinds/backup-destination.ts';

/** What of a destination says where it is asked. */
interface Named {
  provider: BackupProvider;
  region?: string | undefined;
  endpoint?: string | undefined;
  account_id?: string | undefined;
  jurisdiction?: string | undefined;
  path_style?: boolean | undefined;
}

/** Where and how a bucket is asked. */
export interface BackupEndpoint {
  /** Scheme, host and port. */
  endpoint: string;
  region: string;
  pathStyle: boolean;
}

/** A field that is missing, or that the provider does not have. The message is for people. */
export interface FieldFault {
  field: 'region' | 'endpoint' | 'account_id' | 'jurisdiction';
  message: string;
}

/** Names of regions that can be a part of a host. */
const regionInHost = /^[a-z0-9]+(-[a-z0-9]+)*$/;

interface Preset {
  /** Of a region; absent: the endpoint must be given. */
  endpoint?: (region: string) => string;
  /** Absent: it must be given. */
  region?: string;
  pathStyle: boolean;
}

const presets: Readonly<Record<Exclude<BackupProvider, 'r2'>, Preset>> = {
  s3: {
    endpoint: (region) => `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`,
    pathStyle: false,
  },
  b2: { endpoint: (region) => `https://s3.${region}.backblazeb2.com`, pathStyle: false },
  wasabi: { endpoint: (region) => `https://s3.${region}.wasabisys.com`, pathStyle: false },
  minio: { region: 'us-east-1', pathStyle: true },
  custom: { region: 'us-east-1', pathStyle: true },
};

/** Where a destination is asked: as its fields say, and otherwise as is usual with its provider. Pure. */
export function endpointOf(named: Named): BackupEndpoint | FieldFault {
  const { provider, path_style } = named;
  if (provider === 'r2') return ofR2(named);
  for (const field of ['account_id', 'jurisdiction'] as const)
    if (named[field] !== undefined)
      return { field, message: `Only a destination of provider r2 has ${field}, and this one is of ${provider}` };
  const preset = presets[provider];
  const region = named.region ?? preset.region;
  if (region === undefined)
    return { field: 'region', message: `A destination of provider ${provider} needs the region of its bucket` };
  const endpoint = named.endpoint ?? preset.endpoint?.(region);
  if (endpoint === undefined)
    return { field: 'endpoint', message: `A destination of provider ${provider} needs its endpoint` };
  if (named.endpoint === undefined && !regionInHost.test(region))
    return { field: 'region', message: `${provider} has no region ${region}: it is written like eu-central-1` };
  return { endpoint, region, pathStyle: path_style ?? preset.pathStyle };
}

/** An endpoint of R2 as its provider shows it: it has the account in it. */
const r2Host = /^https:\/\/([0-9a-f]{32})(?:\.([a-z]+))?\.r2\.cloudflarestorage\.com\/?$/;

function ofR2({ region = 'auto', endpoint, path_style, ...named }: Named): BackupEndpoint | FieldFault {
  const shown = endpoint === undefined ? undefined : r2Host.exec(endpoint);
  const account = named.account_id ?? shown?.[1];
  const jurisdiction = named.jurisdiction ?? shown?.[2];
  if (account === undefined)
    return {
      field: 'account_id',
      message: 'A destination of provider r2 needs the account_id, which makes its endpoint',
    };
  if (region !== 'auto') return { field: 'region', message: 'The region of a destination of provider r2 is auto' };
  const below = jurisdiction === undefined ? '' : `.${jurisdiction}`;
  const made = `https://${account}${below}.r2.cloudflarestorage.com`;
  if (endpoint !== undefined && endpoint.replace(/\/$/, '') !== made)
    return {
      field: 'endpoint',
      message: `The endpoint of a destination of provider r2 follows from account_id and jurisdiction: leave it out, or send ${made}`,
    };
  return { endpoint: made, region, pathStyle: path_style ?? true };
}
