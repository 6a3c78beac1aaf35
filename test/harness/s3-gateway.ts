import { randomBytes } from 'node:crypto';
import { S3Client } from '@aws-sdk/client-s3';
import { z } from 'zod';
import { docker } from './engine.ts';
import { ensurePackageImage } from './package-image.ts';
import { until } from './until.ts';

/** Keys of a user of the gateway. */
export interface S3Keys {
  accessKey: string;
  secretKey: string;
}

/** The object gateway of Ceph, with a monitor and one store in memory beside it, in a container. */
export interface S3Gateway extends AsyncDisposable {
  /** `http://127.0.0.1:PORT`. */
  endpoint: string;
  /** The same without its scheme, as the settings of a tenant name it. */
  host: string;
  /** Of a user that was made with the gateway. */
  keys: S3Keys;
  /** Makes another user. */
  user(name: string): Promise<S3Keys>;
  /** Runs `radosgw-admin`; answers with its standard output. */
  admin(...argv: string[]): Promise<string>;
  /** A client of the SDK, for what a test does beside the product; it is destroyed with the gateway. */
  client(keys?: S3Keys): S3Client;
  /** Stops the gateway where it is, or lets it go on: connections are accepted meanwhile, and not answered. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Ends the gateway by -9, with all its connections. It starts again at once; what it holds stays. */
  kill(): Promise<void>;
}

/** Keeps everything in memory, and asks for no keys between its parts. Few proposals of the monitor make its start fast. */
const configuration = `[global]
fsid = 5e7b01d5-0000-4000-8000-000000000001
mon_host = [v2:127.0.0.1:3300,v1:127.0.0.1:6789]
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_bind_ipv6 = false
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_objectstore = memstore
memstore_device_bytes = 8589934592
mon_data = /data/mon
osd_data = /data/osd
rgw_data = /data/rgw
log_file = /data/$name.log
run_dir = /run/ceph
admin_socket = /run/ceph/$name.asok
rgw_enable_usage_log = false
rgw_frontends = beast port=9000
`;
const start = `#!/bin/bash
set -e
mkdir -p /data/mon /data/osd /data/rgw /run/ceph
ceph-authtool --create-keyring /data/keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool /data/keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *'
ceph-mon --mkfs -i a --keyring /data/keyring
ceph-mon -i a
osd=$(cat /proc/sys/kernel/random/uuid)
timeout 60 ceph osd new "$osd"
ceph-osd -i 0 --mkfs --osd-uuid "$osd"
ceph-osd -i 0
until ceph osd stat | grep -q '1 up'; do sleep 0.1; done
while :; do radosgw --name client.admin -f || true; done
`;

const Made = z.object({ keys: z.tuple([z.object({ access_key: z.string(), secret_key: z.string() })]) });

/** Makes the image of the gateway, once per engine: a minute and 550 MB the first time. Answers with its reference. */
export function ensureS3Image(): Promise<string> {
  return ensurePackageImage('s3-gateway', {
    suite: 'trixie',
    // no service starts while the packages are installed
    before: ["RUN printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d"],
    packages: ['ceph-mon', 'ceph-osd', 'radosgw'],
    files: { 'ceph.conf': configuration, start },
    lines: ['COPY ceph.conf /etc/ceph/', 'COPY start /usr/local/bin/', 'EXPOSE 9000', 'CMD ["start"]'],
  });
}

/** Starts a gateway without buckets on a port of loopback. Disposing removes it with all that it holds. */
export async function s3Gateway(): Promise<S3Gateway> {
  await using starting = new AsyncDisposableStack();
  const container = await docker('run', '--init', '--detach', '--publish', '127.0.0.1::9000', await ensureS3Image());
  starting.defer(async () => void (await docker('rm', '--force', '--volumes', container)));
  const host = (await docker('port', container, '9000/tcp')).split('\n')[0] ?? '';
  const endpoint = `http://${host}`;
  await until('the gateway answers', async () => (await fetch(endpoint)).status === 200, {
    timeoutMs: 90_000,
    explain: () => docker('logs', '--tail', '20', container),
  });
  const admin = (...argv: string[]): Promise<string> =>
    docker('exec', container, 'radosgw-admin', '--name', 'client.admin', ...argv);
  const user = async (name: string): Promise<S3Keys> => {
    const accessKey = `AK${randomBytes(9).toString('hex').toUpperCase()}`;
    const secretKey = randomBytes(20).toString('base64');
    const keys = ['--access-key', accessKey, '--secret-key', secretKey];
    Made.parse(JSON.parse(await admin('user', 'create', '--uid', name, '--display-name', name, ...keys)));
    return { accessKey, secretKey };
  };
  const signalled = async (signal: string): Promise<void> =>
    void (await docker('exec', container, 'pkill', '--signal', signal, '--full', '^radosgw '));
  const keys = await user('keeper');
  const running = starting.move();
  return {
    endpoint,
    host,
    keys,
    user,
    admin,
    client({ accessKey, secretKey } = keys) {
      const client = new S3Client({
        endpoint,
        region: 'us-east-1',
        forcePathStyle: true,
        credentials: { accessKeyId: accessKey, secretAccessKey: secretKey },
        requestHandler: { connectionTimeout: 5000, requestTimeout: 20_000, throwOnRequestTimeout: true },
      });
      running.defer(() => client.destroy());
      return client;
    },
    freeze: () => signalled('STOP'),
    thaw: () => signalled('CONT'),
    kill: () => signalled('KILL'),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
