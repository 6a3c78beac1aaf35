import { readFile } from 'node:fs/promises';
import { defined } from '../store/defined.ts';
import type { EtcdAccess } from '../store/etcd/endpoints.ts';
import type { ServerConfig } from './server-config.ts';

/** Reads the files that the configuration names. @throws Error with the file that cannot be read. */
export async function readEtcdAccess(config: ServerConfig): Promise<EtcdAccess> {
  const { etcdCa, etcdCert, etcdKey, etcdUser, etcdPasswordFile } = config;
  if (etcdCa === undefined) return {};
  const tls = defined({
    ca: await read('--etcd-ca', etcdCa),
    cert: etcdCert === undefined ? undefined : await read('--etcd-cert', etcdCert),
    key: etcdKey === undefined ? undefined : await read('--etcd-key', etcdKey),
  });
  if (etcdUser === undefined || etcdPasswordFile === undefined) return { tls };
  const password = (await read('--etcd-password-file', etcdPasswordFile)).toString('utf8').replace(/\r?\n$/, '');
  return { tls, login: { user: etcdUser, password } };
}

async function read(flag: string, path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw new Error(`Cannot read the file of ${flag}: ${path} (${why})`, { cause: error });
  }
}
