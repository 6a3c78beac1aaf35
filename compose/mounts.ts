import type { ComposedMount, PlainComposedService } from '../store/kinds/composed-service.ts';
import type { Node, Place } from './node.ts';
import { inContainer, insideRepository } from './paths.ts';
import {
  accepted,
  readBytes,
  readFlag,
  readKeys,
  readList,
  readMatching,
  readOneOrMore,
  readText,
  withoutEffect,
} from './read-value.ts';
import type { Found, Keys } from './read-value.ts';

/** What the parts of a service can refer to. */
export interface Declared extends Found {
  /** The compose file lies in a repository: it may refer to files of that. */
  inRepository: boolean;
  /** The folder of the repository that it lies in: its paths begin there. */
  folder: string;
  /** The files of the repository that it refers to, each with where it is named first. */
  wanted: Map<string, Place>;
  volumes: ReadonlySet<string>;
}

type File = PlainComposedService['files'][number];
interface Mounts {
  mounts: ComposedMount[];
  files: File[];
}

const tmpfsBytes = 64 * 1024 ** 2;
const maxTmpfsBytes = 1024 ** 3;
const readable = 0o444;

/** Reads `volumes` of a service: volumes of this file, files of its repository, and memory. */
export function readVolumes(node: Node, found: Declared): Mounts {
  const all: Mounts = { mounts: [], files: [] };
  for (const it of readList(node, found)) {
    const { mounts, files } = it.type === 'map' ? longMount(it, found) : shortMount(it, found);
    all.mounts.push(...mounts);
    all.files.push(...files);
  }
  return all;
}

const none: Mounts = { mounts: [], files: [] };
const noPath = 'must be mounted at an absolute path of its own, which is none of the kernel';

function shortMount(node: Node, found: Declared): Mounts {
  const text = readText(node, found);
  if (text === undefined) return none;
  if (/^[A-Za-z]:(?:\\|\/[^:]*:\/)|^\\\\/.test(text)) return bindOfHost(node, text, found);
  const [source = '', target, options, ...more] = text.split(':');
  if (target === undefined) return withoutName(node, source, found);
  if (more.length > 0) return refused(node, found, 'must be SOURCE:PATH or SOURCE:PATH:ro');
  const words = (options ?? '').split(',').filter((word) => word !== '');
  for (const word of words)
    if (!/^(?:ro|rw|z|Z|nocopy|cached|delegated|consistent)$/.test(word))
      found.findings.error(node, `has the option ${word}, which is refused`);
  const isReadOnly = words.includes('ro');
  const from = { source, target, isReadOnly, copy: !words.includes('nocopy') };
  return /^[./~]|[/\\]/.test(source) || source === '' ? fileOf(node, from, found) : volumeOf(node, from, found);
}

interface From {
  source: string;
  target: string;
  isReadOnly: boolean;
  copy: boolean;
}

function volumeOf(node: Node, { source, target, isReadOnly, copy }: From, found: Declared): Mounts {
  const path = inContainer(target);
  if (path === undefined) return refused(node, found, noPath);
  if (!found.volumes.has(source))
    return refused(node, found, `names the volume ${source}, which volumes at the top does not have`);
  return { mounts: [{ type: 'volume', volume: source, path, read_only: isReadOnly, copy }], files: [] };
}

/** A path is a file of the repository, or it would be one of the server. */
function fileOf(node: Node, { source, target, isReadOnly }: From, found: Declared): Mounts {
  const inside = insideRepository(source, found.folder);
  if (inside === undefined || inside === '.' || !found.inRepository) return bindOfHost(node, source, found);
  if (!isReadOnly)
    return refused(
      node,
      found,
      'is refused: a file of the repository is mounted read-only (:ro), and what a service writes needs a volume',
    );
  const path = inContainer(target);
  if (path === undefined) return refused(node, found, noPath);
  want(inside, node, found);
  return { mounts: [], files: [{ path, mode: readable, uid: 0, gid: 0, repository_path: inside }] };
}

/** Notes a file of the repository that is to be read. */
export function want(path: string, { path: at, key, line, column }: Place, { wanted }: Declared): void {
  if (!wanted.has(path)) wanted.set(path, { path: at, key, line, column });
}

function bindOfHost(node: Node, source: string, found: Declared): Mounts {
  if (/docker\.sock|containerd\.sock|podman\.sock|docker_engine/i.test(source))
    return refused(node, found, 'is refused: who reaches the socket of the container engine owns its server');
  const way = found.inRepository ? 'use a volume, or a file of the repository' : 'use a volume, or content of configs';
  return refused(node, found, `is refused: it binds a path of the server. Instead, ${way}`);
}

function withoutName(node: Node, target: string, found: Declared): Mounts {
  if (inContainer(target) === undefined) return refused(node, found, 'must be SOURCE:PATH or SOURCE:PATH:ro');
  found.findings.warn(
    node,
    'is a volume without a name: what is written there goes with its container. Name it to keep it',
  );
  return none;
}

function refused(node: Node, { findings }: Found, why: string): Mounts {
  findings.error(node, why);
  return none;
}

function longMount(node: Node, found: Declared): Mounts {
  const read = { type: '', source: '', target: '', isReadOnly: false, copy: true, size: tmpfsBytes, mode: 0o1777 };
  const ofVolume: Keys<Found> = {
    nocopy: (it) => (read.copy = readFlag(it, found) !== true),
  };
  const ofTmpfs: Keys<Found> = {
    size: (it) => (read.size = readBytes(it, 4096, maxTmpfsBytes, found) ?? read.size),
    mode: (it) => (read.mode = readMode(it, found) ?? read.mode),
  };
  const keys: Keys<Found> = {
    type: (it) => (read.type = readText(it, found) ?? ''),
    source: (it) => (read.source = readText(it, found) ?? ''),
    target: (it) => (read.target = readText(it, found) ?? ''),
    read_only: (it) => (read.isReadOnly = readFlag(it, found) ?? false),
    volume: (it) => readKeys(it, ofVolume, found),
    tmpfs: (it) => readKeys(it, ofTmpfs, found),
    bind: (it) => readKeys(it, { create_host_path: accepted }, found),
    consistency: withoutEffect('mounts are those of Linux'),
  };
  readKeys(node, keys, found);
  const path = inContainer(read.target);
  switch (read.type) {
    case 'volume':
      if (read.source !== '' && !/[./\\~]/.test(read.source.charAt(0))) return volumeOf(node, read, found);
      return read.source === '' ? withoutName(node, read.target, found) : bindOfHost(node, read.source, found);
    case 'bind':
      return fileOf(node, read, found);
    case 'tmpfs':
      if (path === undefined) return refused(node, found, noPath);
      return { mounts: [{ type: 'tmpfs', path, size_bytes: read.size, mode: read.mode }], files: [] };
    default:
      return refused(node, found, `is refused: its type must be volume, bind or tmpfs`);
  }
}

/** Reads `tmpfs`: `/run` or `/run:size=64m,mode=1777`. */
export function readTmpfs(node: Node, found: Found): ComposedMount[] {
  return readOneOrMore(node, found).flatMap((it): ComposedMount[] => {
    const text = readText(it, found) ?? '';
    const [target = '', options = ''] = text.split(/:(.*)/s);
    const path = inContainer(target);
    if (path === undefined) {
      found.findings.error(it, noPath);
      return [];
    }
    const mount = { type: 'tmpfs' as const, path, size_bytes: tmpfsBytes, mode: 0o1777 };
    let hasSize = false;
    for (const option of options.split(',').filter((word) => word !== '')) {
      const [name = '', value = ''] = option.split(/=(.*)/s);
      if (name === 'size') {
        hasSize = true;
        mount.size_bytes =
          readBytes({ ...it, type: 'scalar', value, text: value }, 4096, maxTmpfsBytes, found) ?? mount.size_bytes;
      } else if (name === 'mode')
        mount.mode = readMode({ ...it, type: 'scalar', value, text: value }, found) ?? mount.mode;
      else if (!/^(?:rw|noexec|nosuid|nodev)$/.test(option))
        found.findings.error(it, `has the option ${option.slice(0, 40)}, which is refused`);
    }
    if (!hasSize) found.findings.warn(it, 'has no size: it has 64 MiB. Write :size=… for another one');
    return [mount];
  });
}

/** Reads the mode of a file in octal digits. */
export function readMode(node: Node, found: Found): number | undefined {
  const text = readMatching(node, /^(?:0o?)?[0-7]{1,4}$/, 'must be a mode such as 0444', found);
  return text === undefined ? undefined : Number.parseInt(text.replace(/^0o/, ''), 8);
}
