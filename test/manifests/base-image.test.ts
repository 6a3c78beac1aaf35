import { buffer } from 'node:stream/consumers';
import { extract } from 'tar-stream';
import { expect, test } from 'vitest';
import { baseImageTag, ensureBaseImage } from '../../manifests/base-image.ts';
import type { ImageBuilder } from '../../manifests/base-image.ts';
import { longTag } from '../layer-report.ts';

interface Engine extends ImageBuilder {
  tags: Map<string, string>;
  labels: Map<string, Readonly<Record<string, string>>>;
  contexts: Map<string, number>[];
}

/** An engine that keeps of an image its id, tag and labels, and of a context the size of each file. */
function engine(): Engine {
  const tags = new Map<string, string>();
  const labels = new Map<string, Readonly<Record<string, string>>>();
  const contexts: Map<string, number>[] = [];
  return {
    tags,
    labels,
    contexts,
    image: async (reference) => {
      const id = tags.get(reference);
      return id === undefined ? undefined : { id };
    },
    images: async (wanted) =>
      [...labels]
        .filter(([, own]) => Object.entries(wanted).every(([key, value]) => own[key] === value))
        .map(([id]) => ({ id })),
    build: async (options) => {
      const sizes = new Map<string, number>();
      const unpacked = extract();
      unpacked.end(await buffer(options.context));
      for await (const entry of unpacked) {
        sizes.set(entry.header.name, entry.header.size);
        entry.resume();
      }
      contexts.push(sizes);
      const id = `sha256:${contexts.length}`;
      tags.set(options.tag, id);
      labels.set(id, options.labels);
      return { id };
    },
  };
}

test('the image holds Node, its dynamic loader and a shell', async () => {
  const docker = engine();
  await ensureBaseImage(docker, AbortSignal.timeout(30_000));
  const files = docker.contexts[0]!;
  expect(files.get('rootfs/usr/local/bin/node')).toBeGreaterThan(1e6);
  expect(files.get('rootfs/bin/busybox')).toBeGreaterThan(1e5);
  expect([...files.keys()].filter((name) => /\/ld-linux/.test(name))).toHaveLength(1);
  expect([...files.keys()].filter((name) => name.endsWith('/libc.so.6'))).toHaveLength(1);
});

test('it is built once', async () => {
  const docker = engine();
  const first = await ensureBaseImage(docker, AbortSignal.timeout(30_000));
  expect(await ensureBaseImage(docker, AbortSignal.timeout(30_000))).toBe(first);
  expect(docker.contexts).toHaveLength(1);
});

test(
  'it is built again when the tag is gone, or stands for an image made from other files',
  { tags: [longTag] },
  async () => {
    const docker = engine();
    await ensureBaseImage(docker, AbortSignal.timeout(30_000));
    docker.tags.clear();
    await ensureBaseImage(docker, AbortSignal.timeout(30_000));
    expect(docker.contexts).toHaveLength(2);
    docker.tags.set(baseImageTag, 'sha256:other');
    await ensureBaseImage(docker, AbortSignal.timeout(30_000));
    expect(docker.contexts).toHaveLength(3);
  },
);

test('an aborted call builds nothing', async () => {
  const docker = engine();
  await expect(ensureBaseImage(docker, AbortSignal.abort())).rejects.toThrow('abort');
  expect(docker.contexts).toHaveLength(0);
});
