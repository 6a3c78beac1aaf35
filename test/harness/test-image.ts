import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, realpath } from 'node:fs/promises';
import { request } from 'node:http';
import { createRequire } from 'node:module';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { pack, type Pack } from 'tar-stream';
import { engineSocket } from './docker.ts';

/** References of the images that tests run; they are content-addressed, so they are made once per engine. */
export interface TestImages {
  /** The HTTP service of `test-service.mjs`, run by the pinned Node, beside the programs of `shell`. */
  http: string;
  /** A shell and a few programs, for builds and for what must start fast. */
  shell: string;
}

const greeting = new URL('./greeting.txt', import.meta.url).pathname;
/** Without it, BuildKit of engine 20.10 finds no user by a number. */
const users = new URL('./passwd.txt', import.meta.url).pathname;
const service = new URL('./test-service.mjs', import.meta.url).pathname;

/** Makes the images from programs of this machine; needs neither a registry nor a build. */
export async function ensureTestImages(): Promise<TestImages> {
  const [http, shell] = await Promise.all([ensureHttp(), ensureShell()]);
  return { http, shell };
}

async function ensureHttp(): Promise<string> {
  const node = createRequire(import.meta.url).resolve(`node-linux-${process.arch}/bin/node`);
  const programs = new Map([...(await shellPrograms()), ['/bin/node', node]]);
  return ensureImage('http', {
    files: new Map([...(await withLibraries(programs)), ['/service.mjs', service], ['/etc/passwd', users]]),
    changes: ['CMD ["/bin/node", "/service.mjs"]', 'EXPOSE 8080', 'USER 65534', 'ENV PATH=/bin'],
  });
}

async function ensureShell(): Promise<string> {
  const files = await withLibraries(await shellPrograms());
  return ensureImage('shell', { files, changes: ['CMD ["/bin/sleep", "infinity"]', 'ENV PATH=/bin'] });
}

/**
 * Makes an image with what others leave out: data, an anonymous volume, a health check, which passes once
 * `/tmp/healthy` exists. Answers with its reference.
 */
export async function ensureRichImage(): Promise<string> {
  const files = new Map([...(await withLibraries(await shellPrograms())), ['/seed/greeting', greeting]]);
  const check = 'HEALTHCHECK --interval=200ms --timeout=10s --retries=1 CMD ["/bin/cat", "/tmp/healthy"]';
  return ensureImage('rich', { files, changes: ['ENV PATH=/bin', 'VOLUME /cache', check] });
}

/** Makes an image of the proxy of servers, as the official one has its program. Answers with its reference. */
export async function ensureCaddyImage(): Promise<string> {
  const files = await withLibraries(new Map([['/bin/caddy', await realpath('/usr/local/bin/caddy')]]));
  return ensureImage('caddy', { files, changes: ['CMD ["/bin/caddy", "run"]', 'ENV PATH=/bin'] });
}

/** Makes an image without a shell, as one from scratch. Answers with its reference. */
export async function ensureBareImage(): Promise<string> {
  const files = await withLibraries(new Map([['/bin/sleep', await realpath('/bin/sleep')]]));
  return ensureImage('bare', { files, changes: ['CMD ["/bin/sleep", "infinity"]'] });
}

async function shellPrograms(): Promise<Map<string, string>> {
  const names = [
    'sh',
    'cat',
    'cp',
    'dd',
    'echo',
    'env',
    'false',
    'id',
    'ls',
    'mkdir',
    'mv',
    'rm',
    'seq',
    'sleep',
    'sort',
    'stty',
    'true',
  ];
  const found = names.map(async (name) => [`/bin/${name}`, await realpath(`/bin/${name}`)] as const);
  return new Map(await Promise.all(found));
}

/** Makes an image whose `/bin/raw` is `cat` with the capability NET_RAW in its file, as `ping` of Debian has it. */
export async function ensureCapableImage(): Promise<string> {
  const files = new Map([...(await withLibraries(await shellPrograms())), ['/bin/raw', await realpath('/bin/cat')]]);
  const changes = ['CMD ["/bin/sleep", "infinity"]', 'ENV PATH=/bin'];
  return ensureImage('capable', { files, changes, capable: new Set(['/bin/raw']) });
}

interface Contents {
  /** Path in the image → file of this machine. */
  files: ReadonlyMap<string, string>;
  changes: readonly string[];
  /** Those of the files that have the capability NET_RAW. */
  capable?: ReadonlySet<string>;
}

/** Adds what the dynamic loader needs, at the same paths. */
async function withLibraries(programs: ReadonlyMap<string, string>): Promise<Map<string, string>> {
  const files = new Map(programs);
  for (const program of new Set(programs.values())) {
    const { stdout } = await promisify(execFile)('ldd', [program]);
    for (const [library] of stdout.matchAll(/\/\S+/g)) files.set(library, await realpath(library));
  }
  return files;
}

async function ensureImage(name: string, { files, changes, capable = new Set() }: Contents): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(changes));
  const contents = new Map<string, Buffer>();
  for (const [path, file] of [...files].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const data = await readFile(file);
    hash.update(`${path}\0${data.length}\0`).update(data);
    contents.set(path, data);
  }
  const tag = hash.digest('hex').slice(0, 16);
  const reference = `setpoint-test/${name}:${tag}`;
  if ((await ask('GET', `/images/${encodeURIComponent(reference)}/json`)) === 200) return reference;
  const query = new URLSearchParams({ fromSrc: '-', repo: `setpoint-test/${name}`, tag });
  for (const change of changes) query.append('changes', change);
  const status = await ask('POST', `/images/create?${query.toString()}`, archive(contents, capable));
  if (status !== 200) throw new Error(`The engine answered ${status} to the import of ${reference}`);
  return reference;
}

/** The attribute of a file by which a program gets NET_RAW: `struct vfs_cap_data` of revision 2, with the effective bit. */
const netRaw = { 'SCHILY.xattr.security.capability': '\u0001\0\0\u0002\0\u0020' + '\0'.repeat(14) };

function archive(contents: ReadonlyMap<string, Buffer>, capable: ReadonlySet<string>): Pack {
  const tar = pack();
  tar.entry({ name: 'tmp', type: 'directory', mode: 0o1777 });
  const folders = new Set<string>();
  for (const path of contents.keys()) {
    for (let folder = dirname(path); folder !== '/'; folder = dirname(folder)) folders.add(folder);
  }
  for (const folder of [...folders].toSorted()) tar.entry({ name: folder.slice(1), type: 'directory', mode: 0o755 });
  for (const [path, data] of contents) {
    const mode = basename(path).includes('.') && !path.includes('.so') ? 0o644 : 0o755;
    const pax = capable.has(path) ? { pax: netRaw } : {};
    tar.entry({ name: path.slice(1), mode, mtime: new Date(0), ...pax }, data);
  }
  tar.finalize();
  return tar;
}

function ask(method: string, path: string, body?: Pack): Promise<number> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath: engineSocket, method, path: `/v1.41${path}`, headers: { host: 'engine' } });
    outgoing.on('error', reject);
    outgoing.on('response', (answer) => answer.resume().on('end', () => resolve(answer.statusCode ?? 0)));
    if (body) body.on('error', reject).pipe(outgoing);
    else outgoing.end();
  });
}
