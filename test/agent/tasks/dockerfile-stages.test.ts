import { describe, expect, it, test } from 'vitest';
import { readDockerfile, type DockerfileReader } from '../../../agent/tasks/dockerfile.ts';
import { inWords, stepOf } from '../../../agent/runtime/dockerfile-source.ts';

const read = (lines: readonly string[], reader: DockerfileReader = {}, args: Record<string, string> = {}) =>
  readDockerfile(Buffer.from(lines.join('\n')), args, reader);
const amd64 = { kit: 28, platform: 'linux/amd64' };

describe('stages that the image needs nothing of', () => {
  it('are left out with their images, and the numbers of the others count anew', () => {
    const { text, images } = read([
      'FROM unused:1 AS tests',
      'FROM a:1 AS build',
      'FROM unused:2 AS docs',
      'COPY --from=tests / /',
      'FROM c:1',
      'COPY --from=1 /x /x',
    ]);
    expect(text).toBe('FROM a:1 AS build\nFROM c:1\nCOPY --from=0 /x /x\n');
    expect(images.map(({ reference }) => reference)).toEqual(['a:1', 'c:1']);
  });

  it.each([
    ['to begin with', 'FROM BUILD'],
    ['to copy from', 'FROM b:1\nCOPY --from=Build / /'],
    ['to mount', 'FROM b:1\nRUN --mount=type=bind,from=build,target=/x true'],
    ['to begin with, by an argument', 'FROM ${KIND:-build}'],
  ])('are not those that it needs %s', (_what, end) => {
    expect(read(['FROM a:1 AS build', end], { kit: 28 }).text).toContain('FROM a:1 AS build');
  });

  it('may have what is not built here', () => {
    const lines = ['FROM $UNKNOWN AS x', 'ADD https://example.org/a /', 'FROM a:1'];
    expect(read(lines).text).toBe('FROM a:1\n');
    expect(() => read([...lines, 'COPY --from=x / /'])).toThrow('line 1 has a base image that cannot be determined');
  });

  it('are read where a base image may use them', () => {
    const { text } = read(['FROM a:1 AS x', 'FROM b:1'], { everyStage: true });
    expect(text).toBe('FROM a:1 AS x\nFROM b:1\n');
  });
});

describe('what builders know of themselves', () => {
  const lines = ['ARG TARGETARCH', 'FROM a:1 AS build-amd64', 'FROM b:1 AS build-arm64', 'FROM build-${TARGETARCH}'];

  it.each([
    ['linux/amd64', {}, 'a:1'],
    ['linux/arm64', {}, 'b:1'],
    ['linux/amd64', { TARGETARCH: 'arm64' }, 'b:1'],
  ])('is known to a FROM on %s', (platform, args, base) => {
    for (const kit of [28, undefined]) {
      for (const some of [lines, lines.slice(1)])
        expect(read(some, { kit, platform }, args).images.map(({ reference }) => reference)).toEqual([base]);
    }
  });

  it('is known in all its forms', () => {
    const { text } = read(['FROM x/${BUILDOS}-$BUILDARCH$TARGETVARIANT:1'], amd64);
    expect(text).toBe('FROM x/linux-amd64:1\n');
  });

  it('is refused with the line and what to write where it is not known', () => {
    expect(() => read(lines)).toThrow(
      /: line 4 has a base image that cannot be determined: build-\$\{TARGETARCH\}\. Give each .* by ARG NAME=VALUE/,
    );
    expect(() => read(['FROM a-$TARGETVARIANT'], { kit: 28, platform: 'linux/arm' })).toThrow('line 1');
  });

  it('is a platform for BuildKit, and none for another builder, whose own it is', () => {
    const from = ['FROM --platform=$BUILDPLATFORM a:1', 'RUN x'];
    expect(read(from, amd64).text).toContain('FROM --platform=$BUILDPLATFORM a:1');
    for (const flag of ['$BUILDPLATFORM', '${TARGETPLATFORM}'])
      expect(read([`FROM --platform=${flag} a:1`]).text).toBe('FROM a:1\n');
    expect(() => read(['# why', 'FROM --platform=linux/$X a:1'], { platform: 'linux/amd64' })).toThrow(
      'line 2 has a platform that cannot be determined: linux/$X. Leave the flag out: the server builds for linux/amd64',
    );
  });
});

describe('what is refused', () => {
  test.each<[string, readonly string[], DockerfileReader, string]>([
    [
      'a here-document without BuildKit',
      ['FROM a', '', '# comment', 'RUN <<EOF', 'make', 'EOF'],
      {},
      'line 4 has a here-document, which needs BuildKit. Write RUN a && b',
    ],
    [
      'a mount without BuildKit',
      ['FROM a', 'RUN a \\', '  b', 'RUN --mount=type=cache,target=/c x'],
      {},
      'line 4 has RUN',
    ],
    ['an unknown instruction', ['FROM a', 'RUN <<EOF', 'x', 'EOF', 'RUM x'], { kit: 28 }, 'line 5 has an unknown'],
    [
      'a copy',
      ['FROM a', 'COPY --from=$X / /'],
      {},
      'line 2 has a copy that cannot be judged: --from=$X. Write FROM IMAGE',
    ],
  ])('names its line: %s', (_what, lines, reader, message) => {
    expect(() => read(lines, reader)).toThrow(message);
  });
});

describe('a step', () => {
  const lines = [
    '# syntax=docker/dockerfile:1',
    'FROM unused',
    'FROM node AS build',
    'WORKDIR /app',
    'ENV A=1',
    'run npm ci \\',
    '  --silent',
    'FROM nginx',
    'COPY --from=build /app /app',
  ];

  it.each([
    ['[build 3/3] RUN npm ci   --silent', 'Dockerfile line 6: RUN npm ci --silent'],
    ['[build 1/3] FROM docker.io/library/node', 'Dockerfile line 3: FROM node AS build'],
    ['[stage-1 2/2] COPY --from=build /app /app', 'Dockerfile line 9: COPY --from=build /app /app'],
    // the image of nginx has an ONBUILD
    ['[stage-1 3/3] COPY --from=build /app /app', 'Dockerfile line 9: COPY --from=build /app /app'],
    ['[stage-1 1/3] RUN x', undefined],
    ['[internal] load build context', undefined],
    ['[other 1/9] RUN x', undefined],
  ])('%s is found where its author wrote it', (name, words) => {
    const step = stepOf(name, read(lines, { kit: 28 }).source);
    expect(step === undefined ? undefined : inWords(step)).toBe(words);
  });

  it('is found by the lines and the instructions that a builder gets', () => {
    const { text, source } = read(lines, { labelsOf: (stage) => `LABEL ours=${stage}` });
    const first = text.split('\n');
    expect(first[1]).toBe('LABEL ours=1');
    expect(source.instructions.map((it) => it?.line)).toEqual([3, undefined, 4, 5, 6, 8, undefined, 9]);
    expect(source.lines).toEqual([3, undefined, 4, 5, 6, 8, undefined, 9]);
  });
});
