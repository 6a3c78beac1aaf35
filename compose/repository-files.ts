import { fileContent } from '../store/composed-values.ts';
import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import { parseEnvFile } from './env-file.ts';
import { refusal } from './fault.ts';
import { Findings } from './findings.ts';
import type { Variables } from './interpolate.ts';
import type { Place } from './node.ts';

/** A file of a repository as it was found there. */
export type RepositoryFile = { content: Uint8Array } | { lack: 'missing' | 'not_file' | 'too_large' };

/** Most files of its repository that a compose file can refer to. */
export const maxRepositoryFiles = 100;

const lacks = {
  missing: 'which the repository does not have',
  not_file: 'which is no regular file: name each file of a folder',
  too_large: 'which is too large',
} as const;

/** Paths of the files of the repository that the services need. @throws ComposeFault if they are too many */
export function neededFiles(
  services: readonly PlainComposedService[],
  wanted: ReadonlyMap<string, Place>,
): readonly string[] {
  const paths = new Set(
    services.flatMap(({ env_files, files }) => [
      ...env_files.map(({ path }) => path),
      ...files.flatMap(({ repository_path }) => repository_path ?? []),
    ]),
  );
  if (paths.size <= maxRepositoryFiles) return [...paths];
  const findings = new Findings();
  findings.error(
    placeOf([...paths][maxRepositoryFiles] ?? '', wanted),
    `is one of more than ${maxRepositoryFiles} files`,
  );
  throw refusal(findings.errors);
}

/**
 * The services with the contents of their files, and the variables of their `env_file`, which `environment` precedes.
 * @throws ComposeFault that names each file which is missing or wrong
 */
export function withRepositoryFiles(
  services: readonly PlainComposedService[],
  found: {
    wanted: ReadonlyMap<string, Place>;
    contents: ReadonlyMap<string, RepositoryFile>;
    variables: Variables;
  },
): PlainComposedService[] {
  const findings = new Findings();
  const contentOf = (path: string, isRequired = true): Uint8Array | undefined => {
    const it = found.contents.get(path) ?? { lack: 'missing' };
    if ('content' in it) return it.content;
    if (it.lack === 'missing' && !isRequired) return undefined;
    return findings.error(placeOf(path, found.wanted), `names ${path}, ${lacks[it.lack]}`);
  };
  const variablesOf = ({ path, required, raw }: PlainComposedService['env_files'][number]): Record<string, string> => {
    const bytes = contentOf(path, required);
    if (bytes === undefined) return {};
    const { content = '', encoding } = fileContent(bytes);
    const parsed =
      encoding === undefined
        ? parseEnvFile(content, { variables: found.variables, raw: raw === true })
        : { fault: 'is no text in UTF-8' };
    if ('env' in parsed) return parsed.env;
    findings.error(placeOf(path, found.wanted), `names ${path}, which ${parsed.fault}`);
    return {};
  };
  const filled = services.map((service) => ({
    ...service,
    env: { ...Object.assign({}, ...service.env_files.map(variablesOf)), ...service.env } as Record<string, string>,
    env_files: [],
    files: service.files.map(({ repository_path: path, ...file }) => ({
      ...file,
      ...(path !== undefined && fileContent(contentOf(path) ?? new Uint8Array())),
    })),
  }));
  if (findings.errors.length > 0) throw refusal(findings.errors);
  return filled;
}

function placeOf(path: string, wanted: ReadonlyMap<string, Place>): Place {
  return wanted.get(path) ?? { path: '', key: '', line: 1, column: 1 };
}
