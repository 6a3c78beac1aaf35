import type { Operation } from '../../api.ts';

export type CreateBody = Operation<'POST', '/api/v1/applications'>['requestBody']['content']['application/json'];
export const sources = ['git', 'image', 'compose'] as const;
export type Source = (typeof sources)[number];

/** What the form holds, as it was typed. */
export interface Draft {
  readonly source: Source;
  readonly name: string;
  readonly environment: string;
  readonly server: string;
  readonly image: string;
  readonly registry: string | null;
  readonly repository: string;
  readonly branch: string;
  readonly credential: string | null;
  readonly dockerfile: string;
  readonly autodeploy: boolean;
  readonly compose: string;
  readonly port: string;
  readonly health: string;
  readonly replicas: string;
  readonly memory: string;
  readonly env: string;
}

export const emptyDraft: Draft = {
  source: 'git',
  name: '',
  environment: '',
  server: '',
  image: '',
  registry: null,
  repository: '',
  branch: 'main',
  credential: null,
  dockerfile: 'auto',
  autodeploy: true,
  compose: '',
  port: '',
  health: '',
  replicas: '1',
  memory: '',
  env: '',
};

/** The name that an image or a repository suggests; empty where none follows. */
export function suggestedName({ source, image, repository }: Draft): string {
  const from = source === 'image' ? image.replace(/[@:][^/]*$/, '') : repository.replace(/\.git\/?$/, '');
  const last = from.split(/[/:]/).at(-1) ?? '';
  return last
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 40);
}

/** The fields of the form by the names of the request's, so that a refusal is shown where it belongs. */
export const fieldNames: Readonly<Record<string, keyof Draft>> = {
  name: 'name',
  environment_id: 'environment',
  server_id: 'server',
  image_url: 'image',
  registry_id: 'registry',
  repository_url: 'repository',
  branch: 'branch',
  git_credential_id: 'credential',
  dockerfile_path: 'dockerfile',
  compose_file: 'compose',
  exposed_port: 'port',
  healthcheck_path: 'health',
  replicas: 'replicas',
  memory_limit: 'memory',
  env: 'env',
};

/** The request that a draft means. What was left empty is not sent, so that the server's defaults count. */
export function bodyOf(draft: Draft, projectId: string, variables: Readonly<Record<string, string>>): CreateBody {
  const text = (value: string): string | undefined => (value.trim() === '' ? undefined : value.trim());
  const number = (value: string): number | undefined => (value.trim() === '' ? undefined : numberOf(value));
  const { source } = draft;
  return {
    project_id: projectId,
    source_type: source,
    name: draft.name.trim(),
    ...defined({
      environment_id: text(draft.environment),
      server_id: text(draft.server),
      memory_limit: text(draft.memory),
      env: Object.keys(variables).length === 0 ? undefined : variables,
    }),
    ...(source === 'image' && defined({ image_url: text(draft.image), registry_id: draft.registry ?? undefined })),
    ...(source === 'git' &&
      defined({
        repository_url: text(draft.repository),
        branch: text(draft.branch),
        dockerfile_path: text(draft.dockerfile),
        git_credential_id: draft.credential ?? undefined,
        autodeploy: draft.autodeploy,
      })),
    ...(source === 'compose'
      ? { compose_file: draft.compose }
      : defined({
          exposed_port: number(draft.port),
          healthcheck_path: text(draft.health),
          replicas: number(draft.replicas),
        })),
  };
}

/** What was typed as a number; anything else is sent as it is, so that the server says what is wrong with it. */
export function numberOf(typed: string): number {
  const text = typed.trim();
  return /^\d+$/.test(text) ? Number(text) : (text as unknown as number); // is refused
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** An object without the fields that are `undefined`. */
function defined<T extends object>(of: T): Defined<T> {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)) as Defined<T>; // its own fields
}
