import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Files in PEM. */
export interface Certificate {
  /** The authority that issued it. */
  ca: string;
  cert: string;
  key: string;
}

/** Issues certificates for localhost, for servers and clients alike. */
export interface Authority extends AsyncDisposable {
  issue(name: string): Promise<Certificate>;
}

/** An authority of its own, made by openssl in a folder that goes with it. */
export async function createAuthority(): Promise<Authority> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-certificates-'));
  const file = (name: string): string => join(folder, name);
  const make = async (name: string, ...more: string[]): Promise<void> => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', file(`${name}.key`)];
    const what = ['-subj', `/CN=${name}`, '-days', '2', '-out', file(`${name}.pem`)];
    await run('openssl', ['req', '-x509', ...key, ...what, ...more]);
  };
  await make('authority');
  return {
    async issue(name) {
      const issuer = ['-CA', file('authority.pem'), '-CAkey', file('authority.key')];
      const uses = [
        'basicConstraints=CA:FALSE',
        'subjectAltName=DNS:localhost',
        'extendedKeyUsage=serverAuth,clientAuth',
      ];
      await make(name, ...issuer, ...uses.flatMap((use) => ['-addext', use]));
      return { ca: file('authority.pem'), cert: file(`${name}.pem`), key: file(`${name}.key`) };
    },
    async [Symbol.asyncDispose]() {
      await rm(folder, { recursive: true, force: true });
    },
  };
}
