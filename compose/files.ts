import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import type { Node } from './node.ts';
import { inContainer, insideRepository } from './paths.ts';
import { readMode, want } from './mounts.ts';
import type { Declared } from './mounts.ts';
import { accepted, readKeys, readList, readMap, readText, readWhole, withoutEffect } from './read-value.ts';
import type { Found, Keys } from './read-value.ts';

type File = PlainComposedService['files'][number];
/** A config or a secret of the file: what it has. */
export type Content = Pick<File, 'content' | 'repository_path'>;

const maxContentBytes = 64 * 1024;

/** Reads `configs` or `secrets` at the top of the file. */
export function readContents(node: Node, found: Declared): ReadonlyMap<string, Content> {
  return new Map([...readMap(node, found)].map(([name, it]) => [name, contentOf(it, found)]));
}

function contentOf(node: Node, found: Declared): Content {
  const content: Content = {};
  const keys: Keys<Found> = {
    content(it) {
      const text = readText(it, found);
      if (text !== undefined && Buffer.byteLength(text) > maxContentBytes)
        found.findings.error(it, `must be at most ${maxContentBytes / 1024} KiB`);
      else if (text !== undefined) content.content = text;
    },
    file(it) {
      const text = readText(it, found);
      const inside = text === undefined ? undefined : insideRepository(text, found.folder);
      if (text === undefined) return;
      if (inside === undefined || inside === '.')
        found.findings.error(it, 'is refused: it must be a file inside the repository');
      else if (!found.inRepository)
        found.findings.error(it, 'is refused: this compose file is in no repository. Write the text as content');
      else {
        want(inside, it, found);
        content.repository_path = inside;
      }
    },
    name: withoutEffect('it belongs to its application'),
    labels: withoutEffect('Setpoint keeps no labels of files'),
  };
  readKeys(node, keys, found, {
    environment: 'a file is not made of a variable. Give the service the variable',
    external: 'everything that an application uses is its own',
    driver: 'files come from the compose file or its repository',
    template_driver: 'files come from the compose file or its repository',
  });
  if (node.type === 'map' && !['content', 'file', 'environment', 'external'].some((key) => node.fields.has(key)))
    found.findings.error(node, 'must have a content or a file');
  return content;
}

/** Reads `configs` or `secrets` of a service. `folder`: where those without a target are mounted. */
export function readFiles(
  node: Node,
  folder: '/' | '/run/secrets/',
  contents: ReadonlyMap<string, Content>,
  found: Found,
): File[] {
  return readList(node, found).flatMap((it) => {
    const read = { source: '', target: '', mode: 0o444, uid: 0, gid: 0 };
    const keys: Keys<Found> = {
      source: (at) => (read.source = readText(at, found) ?? ''),
      target: (at) => (read.target = readText(at, found) ?? ''),
      mode: (at) => (read.mode = readMode(at, found) ?? read.mode),
      uid: (at) => (read.uid = readWhole(at, 0, 2 ** 31, found) ?? 0),
      gid: (at) => (read.gid = readWhole(at, 0, 2 ** 31, found) ?? 0),
      type: accepted,
    };
    if (it.type === 'map') readKeys(it, keys, found);
    else read.source = readText(it, found) ?? '';
    const content = contents.get(read.source);
    if (content === undefined) {
      const list = folder === '/' ? 'configs' : 'secrets';
      found.findings.error(it, `names ${read.source}, which ${list} at the top does not have`);
      return [];
    }
    const target = read.target === '' ? read.source : read.target;
    const path = inContainer(target.startsWith('/') ? target : folder + target);
    if (path !== undefined) return [{ ...content, path, mode: read.mode, uid: read.uid, gid: read.gid }];
    found.findings.error(it, 'must be mounted at an absolute path of its own, which is none of the kernel');
    return [];
  });
}
