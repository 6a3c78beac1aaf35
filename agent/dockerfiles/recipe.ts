import { RuntimeFailure } from '../runtime/runtime.ts';
import type { RepositoryFiles } from './repository-files.ts';

/** What a generated Dockerfile depends on, beside the repository. */
export interface DockerfileSettings {
  /** Port that the program is to listen on, which it gets as `PORT`. */
  port: number | undefined;
  /** The application has a start command of its own, which replaces that of the image. */
  hasCommand: boolean;
  /** `web`, `worker` or `static`; later releases may have others. */
  appType: string;
  /** Names of the build arguments of the application. */
  buildArgs: readonly string[];
  /** Ids of the build secrets of the application. */
  buildSecrets: readonly string[];
  /** The builder has BuildKit: steps may keep caches between builds. */
  cacheMounts: boolean;
}

/** How an application of one language is built, by what its repository declares. */
export interface Recipe {
  /** Such as `node`. */
  language: string;
  /** What was found and what follows from it, a sentence each. */
  reasons: readonly string[];
  /** Lines of the Dockerfile, with comments. */
  lines: readonly string[];
  /** Patterns of what stays out of the build context, in the language of `.dockerignore`. */
  ignore: readonly string[];
}

/**
 * Returns the recipe for a repository that the language recognises as its own; `undefined` for any other.
 * @throws RuntimeFailure `dockerfile_not_found` if it is its own and lacks something, with what to add
 */
export type Language = (files: RepositoryFiles, settings: DockerfileSettings) => Promise<Recipe | undefined>;

/** The account that generated images run as: it has no name and no rights. */
export const user = '10001:10001';

/** Variables that every stage with a program has: without a home of its own the account could write no cache. */
export const homeLine = 'ENV HOME=/tmp';

/** A repository was recognised, and lacks what a Dockerfile needs. */
export function lacking(message: string): RuntimeFailure {
  return new RuntimeFailure('dockerfile_not_found', `No Dockerfile can be generated: ${message}`, { retryable: false });
}

/** The argument that the names of all base images begin with, so that another registry can be used. */
const baseRegistry = 'BASE_REGISTRY';
export const header = [
  '# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror',
  `ARG ${baseRegistry}=docker.io/library`,
];

const image = /^[a-z][a-z0-9-]*:[A-Za-z0-9][A-Za-z0-9_.-]{0,60}$/;

/** A FROM of an image of that registry. @throws TypeError unless `name` is a name with a tag */
export function from(name: string, stage?: string): string {
  if (!image.test(name)) throw new TypeError(`Not the name and tag of a base image: ${name.slice(0, 100)}`);
  return `FROM \${${baseRegistry}}/${name}${stage === undefined ? '' : ` AS ${stage}`}`;
}

const plainWord = /^[A-Za-z0-9@%+=:,./_-][A-Za-z0-9@%+=:,./_~-]*$/;

/** Whether a shell takes the word as it is. */
export function isPlain(word: string): boolean {
  return word.length <= 500 && plainWord.test(word);
}

/** Settings with credentials for installations: where their programs read them, by the id of the build secret. */
const secretFiles = { npmrc: '/root/.npmrc', 'pip.conf': '/root/.config/pip/pip.conf', netrc: '/root/.netrc' };
export type SecretFile = keyof typeof secretFiles;

/** The mounts of a step that reads these files, as far as the application has them. For `run`. */
export function secretMounts({ buildSecrets }: DockerfileSettings, ids: readonly SecretFile[]): string[] {
  return ids.filter((id) => buildSecrets.includes(id)).map((id) => `id=${id},target=${secretFiles[id]}`);
}

/** Says which build secrets have no effect, as no line mounts them. */
export function unusedSecrets({ buildSecrets }: DockerfileSettings, lines: readonly string[]): string[] {
  const unused = buildSecrets.filter((id) => !lines.some((line) => line.includes(`--mount=type=secret,id=${id},`)));
  if (unused.length === 0) return [];
  return [
    `No step mounts ${unused.length === 1 ? 'the build secret' : 'the build secrets'} ${unused.join(', ')}: npm, pnpm, yarn 1 and bun get npmrc, pip gets pip.conf, and programs of Python get netrc. Add a Dockerfile that mounts others`,
  ];
}

/**
 * A RUN of these commands, one after the other. Nothing that a repository declares gets into it but plain words.
 * @throws TypeError for a word that a shell would not take as it is
 */
export function run(
  commands: readonly (readonly string[])[],
  caches: readonly string[] = [],
  secrets: readonly string[] = [],
): string {
  for (const word of [...commands.flat(), ...caches, ...secrets])
    if (!isPlain(word)) throw new TypeError(`Not a plain word: ${JSON.stringify(word.slice(0, 100))}`);
  const mounts = [
    ...caches.map((target) => `--mount=type=cache,target=${target}`),
    ...secrets.map((one) => `--mount=type=secret,${one}`),
  ];
  return ['RUN', ...mounts, commands.map((words) => words.join(' ')).join(' && ')].join(' ');
}

/** A COPY of files by their names. @throws TypeError for a name that a builder would not take as it is */
export function copy(names: readonly string[], target: string): string {
  for (const name of names)
    if (!isPlain(name) || name.startsWith('-')) throw new TypeError(`Not a plain name: ${name.slice(0, 100)}`);
  return `COPY ${names.join(' ')} ${target}`;
}

/** An instruction in the form that no shell reads, in ASCII. Its words may be any text. */
export function exec(instruction: 'CMD' | 'ENTRYPOINT', words: readonly string[]): string {
  const ascii = words.map((word) =>
    JSON.stringify(word).replaceAll(/[\u007f-\uffff]/g, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`),
  );
  return `${instruction} [${ascii.join(', ')}]`;
}

/** A name that an ARG has as it is; arguments may have any other name, too. */
const argument = /^[A-Za-z_][A-Za-z0-9_.-]*$/;

/** The lines that make the build arguments of the application known to the steps after them. */
export function argLines({ buildArgs }: DockerfileSettings): string[] {
  return buildArgs.filter((name) => name !== baseRegistry && argument.test(name)).map((name) => `ARG ${name}`);
}

/**
 * As {@link argLines}, in two parts: what an installation reads, as the name is one of its program's own variables or
 * as `texts`, its settings, have it as a variable; and the rest.
 */
export function dividedArgs(
  settings: DockerfileSettings,
  own: RegExp,
  texts: readonly (string | undefined)[],
): { before: string[]; after: string[] } {
  const named = new Set(
    texts.flatMap((text) => [...(text ?? '').matchAll(/\$\{?(?:env\.)?([A-Za-z_]\w{0,200})/g)].map(([, name]) => name)),
  );
  const { before = [], after = [] } = Object.groupBy(argLines(settings), (line) => {
    const name = line.slice('ARG '.length);
    return own.test(name) || named.has(name) ? 'before' : 'after';
  });
  return { before, after };
}

/** The line that installs packages of Debian, which the image has in its own release; none for no packages. */
export function debianPackages(names: readonly string[]): string[] {
  if (names.length === 0) return [];
  return [
    `RUN apt-get update && apt-get install --yes --no-install-recommends ${names.join(' ')} && rm -rf /var/lib/apt/lists/*`,
  ];
}

/** The lines that name the port of the program. */
export function portLines(port: number | undefined): string[] {
  return port === undefined ? [] : [`ENV PORT=${port}`, `EXPOSE ${port}`];
}
