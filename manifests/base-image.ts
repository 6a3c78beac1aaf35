import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack } from 'tar-stream';
import type { Pack } from 'tar-stream';

/** Name of the base image in the machine's engine: `FROM setpoint-base/node` in a Dockerfile. */
export const baseImageTag = 'setpoint-base/node:latest';

/** Label with the digest of the image's sources: if it differs, the image is built again. */
const digestLabel = 'setpoint.base-image';

/** Calls of the engine that {@link ensureBaseImage} needs. */
export interface ImageBuilder {
  image(reference: string, signal: AbortSignal): Promise<{ id: string } | undefined>;
  images(labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<{ id: string }[]>;
  build(
    options: {
      context: AsyncIterable<Uint8Array>;
      dockerfile: string;
      tag: string;
      buildArgs: Readonly<Record<string, string>>;
      labels: Readonly<Record<string, string>>;
    },
    line: (text: string) => void,
    signal: AbortSignal,
  ): Promise<{ id: string }>;
}

const dockerfile = `FROM scratch
COPY rootfs/ /
RUN ["/bin/busybox", "--install", "-s", "/bin"]
ENV PATH=/usr/local/bin:/usr/bin:/bin
CMD ["node"]
`;

const busyboxPlaces = ['/usr/bin/busybox', '/bin/busybox'];
const certificates = '/etc/ssl/certs/ca-certificates.crt';

const textFiles: Readonly<Record<string, string>> = {
  '/etc/passwd': 'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000:node:/home/node:/bin/sh\n',
  '/etc/group': 'root:x:0:\nnode:x:1000:\n',
  '/etc/nsswitch.conf': 'hosts: files dns\n',
};

/**
 * Makes sure that the engine has the base image: Node as it runs here, its libraries, the machine's certificates, and
 * busybox as its shell. The image is built from the machine's own files, without a registry, and only if it is absent
 * or was built from other files. Resolves with the image's id.
 * @throws Error if the machine has no busybox; any error of the builder
 */
export async function ensureBaseImage(builder: ImageBuilder, signal: AbortSignal): Promise<string> {
  const files = await machineFiles();
  const labels = { [digestLabel]: await digest(files, signal) };
  const [tagged, made] = await Promise.all([builder.image(baseImageTag, signal), builder.images(labels, signal)]);
  if (tagged && made.some((image) => image.id === tagged.id)) return tagged.id;
  const image = await builder.build(
    { context: buildContext(files), dockerfile: 'Dockerfile', tag: baseImageTag, buildArgs: {}, labels },
    () => {},
    signal,
  );
  return image.id;
}

/** Returns the path on this machine of each file of the image, by its path in the image. */
async function machineFiles(): Promise<ReadonlyMap<string, string>> {
  const libraries = loadedLibraries();
  const busybox = await firstOf(busyboxPlaces);
  if (busybox === undefined) {
    throw new Error(
      `Cannot build the image ${baseImageTag} as the machine has no busybox: ${busyboxPlaces.join(', ')}`,
    );
  }
  const files = new Map([
    ['/usr/local/bin/node', process.execPath],
    ['/bin/busybox', busybox],
    ...libraries.map((path): [string, string] => [path, path]),
  ]);
  for (const path of [certificates, ...resolverLibraries(libraries)]) {
    if (await exists(path)) files.set(path, path);
  }
  return files;
}

/** Returns the absolute paths of the dynamic loader and the libraries of this process. */
function loadedLibraries(): string[] {
  // The report is typed as a bare object.
  const { sharedObjects } = process.report.getReport() as { sharedObjects: string[] };
  return sharedObjects.filter((path) => /^\/(usr\/)?lib/.test(path)).toSorted();
}

/** Libraries that a C library before 2.34 loads only when it looks up a name: they may not be loaded yet. */
function resolverLibraries(libraries: readonly string[]): string[] {
  const libc = libraries.find((path) => path.endsWith('/libc.so.6'));
  if (libc === undefined) return [];
  return ['libresolv.so.2', 'libnss_dns.so.2', 'libnss_files.so.2'].map((name) => `${dirname(libc)}/${name}`);
}

async function digest(files: ReadonlyMap<string, string>, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([dockerfile, textFiles]));
  for (const [path, source] of files) {
    hash.update(`\0${path}\0`);
    for await (const chunk of createReadStream(source, { highWaterMark: 1 << 20, signal })) hash.update(chunk);
  }
  return hash.digest('hex');
}

/** Makes the build context as a tar stream. Nothing in it depends on the time. */
async function* buildContext(files: ReadonlyMap<string, string>): AsyncGenerator<Uint8Array> {
  const context = pack();
  write(context, files).catch((error: unknown) => context.destroy(error instanceof Error ? error : undefined));
  // The packer emits only bytes; its type is `unknown`.
  for await (const chunk of context) yield chunk as Uint8Array;
}

async function write(context: Pack, files: ReadonlyMap<string, string>): Promise<void> {
  context.entry(entry({ name: 'Dockerfile' }), dockerfile);
  context.entry(entry({ name: 'rootfs/tmp', type: 'directory', mode: 0o1777 }));
  for (const [path, content] of Object.entries(textFiles)) context.entry(entry({ name: `rootfs${path}` }), content);
  for (const [path, source] of files) {
    const { size } = await stat(source);
    const target = context.entry(entry({ name: `rootfs${path}`, size, mode: 0o755 }));
    // A streamx stream does all that `pipeline` needs; its types do not show it.
    await pipeline(createReadStream(source, { highWaterMark: 1 << 20 }), target as unknown as Writable);
  }
  context.finalize();
}

function entry<H extends { name: string }>(header: H): H & { mtime: Date } {
  return { mtime: new Date(0), ...header };
}

async function firstOf(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) if (await exists(path)) return path;
  return undefined;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
