import { describe, expect, test } from 'vitest';
import { judgeTriggers, readDockerfile } from '../../../agent/tasks/dockerfile.ts';

const read = (text: string, args: Record<string, string> = {}) => readDockerfile(Buffer.from(text), args);
const imagesOf = (text: string, args: Record<string, string> = {}): string[] =>
  read(text, args).images.map((one) => one.reference);

function failureOf(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error('Nothing was thrown');
}

describe('the images of a Dockerfile', () => {
  test.each<[string, string, Record<string, string>, string[]]>([
    ['a base', 'FROM node', {}, ['node:latest']],
    ['a base of the default registry in full', 'from docker.io/library/node:22', {}, ['node:22']],
    ['a base by its digest', `FROM a.test/b:1@sha256:${'a'.repeat(64)}`, {}, [`a.test/b@sha256:${'a'.repeat(64)}`]],
    ['two bases', 'FROM a:1 AS x\nFROM b:1\nCOPY --from=x / /', {}, ['a:1', 'b:1']],
    ['a stage that nothing needs', 'FROM a:1 AS x\nFROM b:1', {}, ['b:1']],
    ['a base upon a stage', 'FROM a:1 AS Base\nFROM base', {}, ['a:1']],
    ['a base of nothing', 'FROM scratch\nCOPY . /', {}, []],
    ['what is copied from an image', 'FROM a:1\nCOPY --chown=1 --from=b / /', {}, ['a:1', 'b:latest']],
    ['what is copied from a stage by its number', 'FROM a:1\nFROM b:1\nCOPY --from=0 / /', {}, ['a:1', 'b:1']],
    ['a stage that comes later is none yet', 'FROM a:1\nCOPY --from=later / /\nFROM b:1 AS later', {}, ['b:1']],
    ['the stage itself is none yet', 'FROM a:1 AS own\nCOPY --from=own / /', {}, ['a:1', 'own:latest']],
    ['an argument with a default', 'ARG V=22\nFROM node:$V', {}, ['node:22']],
    ['an argument that is given', 'ARG V=22\nFROM node:${V}', { V: '24' }, ['node:24']],
    ['an argument that is given and not declared', 'FROM node:${V:-22}', { V: '24' }, ['node:22']],
    ['an argument of arguments', 'ARG A="x" B=y\nARG C=$A/$B\nFROM $C', {}, ['x/y:latest']],
    ['an instruction over lines', 'FROM \\\n # why\n\n   node:22 \\ \n  AS x', {}, ['node:22']],
    ['another escape', '# Escape = `\nFROM `\nnode\nRUN echo \\\nRUN true', {}, ['node:latest']],
    ['a comment that is no directive', '# a comment\n# escape=`\nFROM a\\\n:1', {}, ['a:1']],
    ['lines of Windows with a mark', '\uFEFFFROM node\r\nRUN a \\\r\n b\r\n', {}, ['node:latest']],
    ['what looks like one in a command', 'FROM a:1\nRUN x \\\nFROM b:1', {}, ['a:1']],
  ])('are known for %s', (_what, text, args, expected) => {
    expect(imagesOf(text, args)).toEqual(expected);
  });

  test('are written in full, so that no builder reads another one', () => {
    const text = [
      '# syntax=docker/dockerfile:1',
      'ARG V=1',
      'FROM --platform=linux/amd64 node:$V as Build',
      'run  a \\',
      '  # comment',
      '  b',
      'COPY --from=b --chown=1:1 /x  /y',
      'FROM BUILD',
      'ONBUILD run true',
      'CMD ["à"] \\',
    ].join('\n');
    expect(Buffer.from(read(text).text, 'latin1').toString()).toBe(
      [
        'ARG V=1',
        'FROM --platform=linux/amd64 node:1 AS build',
        'RUN a   b',
        'COPY --from=b:latest --chown=1:1 /x  /y',
        'FROM build',
        'ONBUILD RUN true',
        'CMD ["à"]',
        '',
      ].join('\n'),
    );
    expect(read('# escape=`\nFROM a\nRUN x').text).toBe('# escape=`\nFROM a:latest\nRUN x\n');
  });
});

describe('a Dockerfile that cannot be judged is refused', () => {
  test.each([
    ['FROM $UNKNOWN'],
    ['ARG A\nFROM $A'],
    ['ARG A=${B:+x}\nFROM $A'],
    ['FROM ${A#x}'],
    ['FROM "node"'],
    ['FROM a b c'],
    ['FROM a AS b/c'],
    ['FROM a\nCOPY --from=$X / /'],
    ['FROM a\nCOPY --fr"om"=b / /'],
    ['FROM a\nCOPY --fr\\om=b / /'],
    ['FROM a\nCOPY --from= / /'],
    ['FROM a\nCOPY --FROM=b / /'],
    ['FROM a\nCOPY --from=b --from=c / /'],
    ['FROM a\nCOPY --from=0 / /'],
    ['FROM a\nCOPY --from=7 / /'],
    ['FROM a\nRUN --mount=type=bind,from=b,target=/x true'],
    ['FROM a\nRUN <<END\nFROM b AS c\nEND'],
    ['FROM a\nRUN cat <<-"END" > x\nEND'],
    ['FROM a\nCOPY <<END /x\nEND'],
    ['FROM a\nRUN x \\\\\nFROM b'],
    ['FROM a\nONBUILD COPY --from=b / /'],
    ['FROM a\nONBUILD FROM b'],
    ['FROM a\nONBUILD ONBUILD RUN true'],
    ['FROM a\nONBUILD ADD http://127.0.0.1/x /'],
    ['FROM a\nINCLUDE b'],
    ['# syntax=evil/frontend\nFROM a'],
    ['#syntax = docker/dockerfile.evil/x\nFROM a'],
    ['\u00a0FROM b'],
    ['FROM a\rFROM b'],
    ['FROM a\u000bb'],
    ['# escape=x\nFROM a'],
    [`FROM a\nRUN ${'x'.repeat(70_000)}`],
    ['FROM a\nADD http://169.254.169.254/latest /x'],
    ['FROM a\nADD ["https://x.test/a", "/x"]'],
    ['FROM a\nADD ["\\u0068ttp://x.test/a", "/x"]'],
    ['FROM a\nADD "h"ttp://x.test/a /x'],
    ['FROM a\nADD $URL /x'],
    ['FROM a\nADD ht${URL} /x'],
    ['FROM a\nADD git@x.test:a/b /x'],
    ['FROM a\nADD x@h:r /x'],
    ['FROM a\nADD 10.0.0.5:r /x'],
    ['FROM a\nADD ./a localhost:r /x'],
    ['FROM a\nADD ["h:r", "/x"]'],
    ['FROM a\nADD ["h\\u003ar", "/x"]'],
    ['FROM a\nADD ["h\\u003ar", "/x"] /y'],
    ['FROM a\nADD \u00a0["h\\u003ar", "/x"]'],
    ['FROM a\nADD h${X:-x} /x'],
    ['FROM a\nADD HTTP$X /x'],
    ['FROM a\nADD h:$X /x'],
    ['FROM a\nADD \u00e9$X /x'],
    ['FROM a\nONBUILD ADD x@h:r /x'],
    [Array.from({ length: 21 }, (_, nth) => `FROM a:${nth} AS s${nth}\nCOPY --from=s${nth - 1} / /`).join('\n')],
  ])('%j', (text) => {
    expect(failureOf(() => read(text))).toMatchObject({ code: 'invalid_source', retryable: false });
  });

  test.each([
    ['a name of what is built here', 'FROM setpoint/victim-f2a920:1', 'image_not_allowed'],
    ['such a name in full', 'FROM docker.io/setpoint/victim:1', 'image_not_allowed'],
    ['such a name by an argument', 'ARG A=setpoint\nFROM $A/victim:1', 'image_not_allowed'],
    ['such a name to copy from', 'FROM a\nCOPY --from=setpoint/victim:1 / /', 'image_not_allowed'],
    ['an id', `FROM ${'a'.repeat(64)}`, 'image_not_allowed'],
    ['an id with its algorithm', `FROM a\nCOPY --from=sha256:${'a'.repeat(64)} / /`, 'image_not_allowed'],
    ['the beginning of an id with its algorithm', 'FROM sha256:16cb', 'image_not_allowed'],
    ['no name', 'FROM UPPER', 'image_not_found'],
  ])('for %s', (_what, text, code) => {
    expect(failureOf(() => read(text))).toMatchObject({ code, retryable: false });
  });

  test('but an ADD of files is not', () => {
    expect(imagesOf('FROM a\nADD ./$FILE app/$X http.conf ["x"] /x')).toEqual(['a:latest']);
    expect(imagesOf('FROM a\nADD ./a:b /a:b ../c:d app/e:f $TARGET')).toEqual(['a:latest']);
    expect(imagesOf('FROM a\nADD ["./a:b", "c:/x"]')).toEqual(['a:latest']);
    expect(imagesOf('FROM a\nADD app-$V.jar a-${X}/b rootfs_${V:-1}.tgz /x')).toEqual(['a:latest']);
  });

  test('the beginning of an id is taken for a name with a tag, which is none of an id', () => {
    expect(read('FROM 16cb3f').text).toBe('FROM 16cb3f:latest\n');
  });
});

describe('what a base image adds to a build', () => {
  const used = { reference: 'base:1', before: ['tools', undefined] };

  test.each([
    'COPY --from=setpoint/victim:1 / /',
    'COPY --from=2 / /',
    'ADD http://127.0.0.1/ /',
    'RUN --mount=from=x true',
    'NONE',
    'RUN a\nCOPY --from=b / /',
  ])('is refused: %j', (trigger) => {
    expect(failureOf(() => judgeTriggers(used, [trigger]))).toMatchObject({ code: 'invalid_source' });
  });

  test('is taken where it uses nothing but files and earlier stages', () => {
    judgeTriggers(used, ['RUN true', 'COPY . /app', 'COPY --from=Tools / /', 'COPY --from=1 / /']);
  });
});

describe('a Dockerfile for BuildKit', () => {
  const readBy = (kit: number, text: string) => readDockerfile(Buffer.from(text), {}, { kit });

  test('may mount files of stages and images, of which the images are judged', () => {
    const { text, images } = readBy(
      20,
      'FROM a:1 AS Tools\nFROM b:1\nRUN --mount=from=tools,target=/t --mount=type=bind,from=c,source=/x,dst=/y true',
    );
    expect(images.map(({ reference }) => reference)).toEqual(['a:1', 'b:1', 'c:latest']);
    expect(text).toContain('RUN --mount=from=tools,target=/t --mount=type=bind,from=c:latest,source=/x,dst=/y true');
  });

  test('fails where a secret is missing, unless it says that it does without', () => {
    const text = 'FROM a\nRUN --mount=type=secret,id=x true\nRUN --mount=type=secret,id=y,required=false true';
    expect(readBy(20, text).text).toContain(
      'RUN --mount=type=secret,id=x,required=true true\nRUN --mount=type=secret,id=y,required=false true',
    );
  });

  test('may have here-documents where the engine reads them, as they are', () => {
    const text =
      'FROM a:1\nRUN <<EOF\nFROM b AS c\n# text \\\nEOF\nCOPY <<-"ONE" <<TWO /x/\n\ta\n\tONE\nb\nTWO\nRUN true\n';
    expect(readBy(23, text).text).toBe(text);
    expect(readBy(23, text).images.map(({ reference }) => reference)).toEqual(['a:1']);
    expect(failureOf(() => readBy(20, text))).toMatchObject({ message: expect.stringContaining('Docker 23') });
  });

  test.each([
    [20, 'FROM a\nCOPY --link x /'],
    [28, 'FROM a\nADD --keep-git-dir=true x /'],
    [28, 'FROM a\nADD --checksum=sha256:0 https://x.test/a /'],
    [28, 'FROM a\nADD u$X /x'],
    [28, 'FROM a\nADD a-${X}/b /x'],
    [28, 'FROM a\nARG TARGETARCH\nADD rootfs-$TARGETARCH.tar.gz /'],
    [28, 'FROM a\nRUN --network=host true'],
    [28, 'FROM a\nRUN --security=insecure true'],
    [28, 'FROM a\nRUN --mount=type=ssh true'],
    [28, 'FROM a\nRUN --mount=type=$X true'],
    [28, 'FROM a\nRUN --mount=type=bind,type=ssh true'],
    [28, 'FROM a\nRUN --mount=type=bind,from=$X,target=/x true'],
    [28, 'FROM a\nRUN --mount=type=bind,from=setpoint/victim:1,target=/x true'],
    [28, 'FROM a\nRUN --device=x true'],
    [28, 'FROM a\nONBUILD RUN --mount=type=bind,from=b,target=/x true'],
    [28, 'FROM a\nONBUILD RUN <<EOF\nEOF'],
    [28, 'FROM a\nRUN <<EOF\nRUN true'],
    [28, 'FROM a\nRUN "x <<EOF"\nRUN true\nEOF'],
    [28, 'FROM a\nRUN cat<<EOF <<\\X\nX'],
    [28, 'FROM a\nRUN x\u00a0<<EOF\nFROM b\nEOF'],
    [28, 'FROM a\nRUN 3<<EOF\nEOF'],
  ])('of engine %i is refused: %j', (kit, text) => {
    expect(failureOf(() => readBy(kit, text))).toMatchObject({ retryable: false });
  });
});
