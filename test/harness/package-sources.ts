import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** The mirror that this machine takes Debian's packages from; none, for the default one, where it takes others. */
export async function mirror(): Promise<string[]> {
  const format = ['--format', '$(SITE) $(ORIGIN) $(LABEL)'];
  const { stdout } = await execute('apt-get', ['indextargets', ...format, 'Created-By: Packages']);
  const site = stdout.split('\n').find((line) => line.endsWith(' Debian Debian'));
  return site === undefined ? [] : [site.split(' ')[0] ?? ''];
}

/** Unpacks a package of npm into a folder that it makes: its files are in `package` there. */
export async function unpackNpm(specifier: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const { stdout } = await execute('npm', ['pack', '--silent', '--pack-destination', to, specifier], { cwd: to });
  await execute('tar', ['--directory', to, '--extract', '--gzip', '--file', join(to, stdout.trim())]);
}

/** Installs packages of npm with what they need into the `node_modules` of a folder that it makes. No script of theirs is run. */
export async function installNpm(specifiers: readonly string[], to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const options = ['--silent', '--ignore-scripts', '--omit=optional', '--no-package-lock', '--no-audit', '--no-fund'];
  await execute('npm', ['install', ...options, '--prefix', to, ...specifiers], { cwd: to });
}

/** Where the further authorities that this machine trusts lie in a container, if it has any. */
export interface NpmAccess {
  /** File of this machine with the authorities, if it names one. */
  authorities: string | undefined;
  /** Variables by which npm reaches its packages from a container as from here; the authorities are at `path` there. */
  variables(path: string): Record<string, string>;
}

/** How npm reaches its packages from here. */
export async function npmAccess(): Promise<NpmAccess> {
  const authorities = process.env['NODE_EXTRA_CA_CERTS'];
  const registry = (await execute('npm', ['config', 'get', 'registry'], { cwd: tmpdir() })).stdout.trim();
  return {
    authorities,
    variables: (path) => ({
      npm_config_registry: registry,
      ...(authorities !== undefined && { NODE_EXTRA_CA_CERTS: path, npm_config_cafile: path }),
    }),
  };
}
