import type { Client } from '../client.ts';
import { fileText } from '../file-text.ts';
import { Secrets } from '../secrets.ts';

/** Of a text, `none` takes it away. */
export interface DestinationOptions {
  provider?: string;
  bucket?: string;
  region?: string;
  endpoint?: string;
  accountId?: string;
  jurisdiction?: string;
  pathPrefix?: string;
  pathStyle?: 'yes' | 'no';
  ca?: string;
  storageClass?: string;
  accessKey?: string;
  /** It is asked for. */
  secretKey?: boolean;
}

const path = '/api/v1/settings/backup-destinations';

/** Creates a backup destination; its secret key is asked for. */
export async function createDestination(client: Client, name: string, options: DestinationOptions): Promise<void> {
  const { provider, bucket, accessKey } = options;
  if (provider === undefined || bucket === undefined || accessKey === undefined)
    throw new Error('A destination is a bucket of a provider: name them by --provider, --bucket and --access-key');
  const plain = await plainFields(options);
  await using secrets = new Secrets();
  const secret_key = await secrets.next('Secret key');
  await client.request('POST', path, { name, ...plain, secret_key });
  console.log(`backup-destination ${name} is created: bucket ${bucket} was written to, read, listed and deleted from`);
}

/** Changes a backup destination at `at`. */
export async function setDestination(
  client: Client,
  at: string,
  renamed: object,
  options: DestinationOptions,
): Promise<void> {
  const plain = await plainFields(options);
  await using secrets = new Secrets();
  const secret = options.secretKey === true ? { secret_key: await secrets.next('Secret key') } : {};
  await client.request('PUT', at, { ...renamed, ...plain, ...secret });
}

async function plainFields(options: DestinationOptions): Promise<object> {
  const { provider, bucket, region, endpoint, accountId, jurisdiction } = options;
  const { pathPrefix, pathStyle, ca, storageClass, accessKey } = options;
  const orNone = (text: string): string | null => (text === 'none' ? null : text);
  return {
    ...(provider !== undefined && { provider }),
    ...(bucket !== undefined && { bucket }),
    ...(region !== undefined && { region: orNone(region) }),
    ...(endpoint !== undefined && { endpoint: orNone(endpoint) }),
    ...(accountId !== undefined && { account_id: orNone(accountId) }),
    ...(jurisdiction !== undefined && { jurisdiction: orNone(jurisdiction) }),
    ...(pathPrefix !== undefined && { path_prefix: orNone(pathPrefix) }),
    ...(pathStyle !== undefined && { path_style: pathStyle === 'yes' }),
    ...(ca !== undefined && { ca: ca === 'none' ? null : await fileText(ca, 'certificate') }),
    ...(storageClass !== undefined && { storage_class: orNone(storageClass) }),
    ...(accessKey !== undefined && { access_key: accessKey }),
  };
}
