import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const characters = (from: number, to: number, step = 1): string =>
  String.fromCodePoint(...Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, n) => from + n * step));

/** Values that have each byte that there is in UTF-8, and what shells, engines and files of variables read as more. */
const values: Readonly<Record<string, string>> = {
  ASCII: characters(0x01, 0x7f),
  TWO_BYTES: characters(0x80, 0x7ff),
  THREE_BYTES: characters(0x800, 0xd7ff, 0x7f) + characters(0xe000, 0xffff, 0x7f),
  FOUR_BYTES: characters(0x1_0000, 0x10_ffff, 0xfff),
  NO_CHARACTERS: '\u{fffe}\u{ffff}\u{10ffff}',
  EMPTY: '',
  LINES: '\n\r\nA=1\nB="2"\n\n',
  SPACES: ' \t leading and trailing \t ',
  QUOTES: `"'\`"'\\"\\'`,
  BACKSLASHES: '\\\\n\\t\\0\\',
  DOLLARS: '$ $$ $HOME ${HOME} ${HOME:-x} $(id) `id` ${ $}',
  EQUALS: '=a=b==',
  HASH: '# not a comment',
  LONG: 'ü'.repeat(16 * 1024),
};
const unused = new Set([0x00, 0xc0, 0xc1, ...Array.from({ length: 11 }, (_, n) => 0xf5 + n)]);
const nameOf = (name: string): string => `OF_FILE_${name}`;

/** The variables of the first process of a container, byte by byte. */
async function environOf(container: string): Promise<Map<string, Buffer>> {
  const script = "process.stdout.write(fs.readFileSync('/proc/1/environ').toString('base64'))";
  const bytes = Buffer.from(await docker('exec', container, '/bin/node', '-e', script), 'base64');
  const found = new Map<string, Buffer>();
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf(0, at);
    const equals = bytes.indexOf('=', at);
    found.set(bytes.toString('utf8', at, equals), bytes.subarray(equals + 1, end));
    at = end + 1;
  }
  return found;
}

describe('values of variables reach the process byte by byte', () => {
  let town: Installation;
  let image: string;

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    town = await Installation.start({ store: 'sqlite' });
  });
  afterAll(() => town[Symbol.asyncDispose]());

  async function deployed(fields: Record<string, unknown>): Promise<{ id: string; container: string }> {
    const { id } = await town.createApplication({ min_healthy_seconds: 1, drain_seconds: 0, ...fields });
    await town.deployment((await town.deploy(id)).id, 'succeeded');
    const [container = ''] = await instancesOf(id);
    return { id, container };
  }

  it('with every byte that there is in UTF-8', () => {
    const bytes = new Set(Object.values(values).flatMap((value) => [...Buffer.from(value)]));
    expect([...bytes].toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !unused.has(byte)),
    );
  });

  it('of an application of an image', async () => {
    const { id, container } = await deployed({ source_type: 'image', image_url: image, env: values });
    const found = await environOf(container);
    for (const [name, value] of Object.entries(values))
      expect(found.get(name)?.toString('hex'), name).toBe(Buffer.from(value).toString('hex'));
    // and as they are read again
    expect(await town.client.request('GET', `/api/v1/applications/${id}/env`)).toMatchObject({ env: values });
  });

  it('of a service of a compose file, also of those that the file passes on under another name', async () => {
    const passed = Object.keys(values).map((name) => `      - ${name}\n      - ${nameOf(name)}=\${${name}}`);
    const { container } = await deployed({
      source_type: 'compose',
      compose_file: `services:\n  web:\n    image: ${image}\n    environment:\n${passed.join('\n')}\n`,
      env: values,
    });
    const found = await environOf(container);
    for (const [name, value] of Object.entries(values))
      for (const one of [name, nameOf(name)])
        expect(found.get(one)?.toString('hex'), one).toBe(Buffer.from(value).toString('hex'));
  });

  it('and one with a zero byte, or without a meaning in UTF-8, is refused by its name', async () => {
    const fields = { source_type: 'image', image_url: image };
    for (const [name, value] of Object.entries({ ZERO: 'a\0b', HALF: 'a\ud800b' })) {
      const made = town.createApplication({ ...fields, env: { GOOD: 'x', [name]: value } });
      await expect(made).rejects.toThrow(`env.${name} must be text without NUL`);
    }
  });
});
