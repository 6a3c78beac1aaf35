import { defined } from './defined.ts';
import type { DeepReadonly } from './deep-readonly.ts';
import { composedPath, PlainComposedService, plainWords } from './kinds/composed-service.ts';
import type { StoredComposedService } from './kinds/composed-service.ts';
import type { SealedValue } from './kinds/define.ts';
import { plainCopy } from './plain-copy.ts';
import type { Sealer, SealPlace, Unsealer } from './seal.ts';

/** Seals and opens the values of the services of one tenant. */
export interface ComposedSecrets {
  tenant: string;
  sealer: Sealer;
  unsealer: Unsealer;
}

type Sealed = Omit<StoredComposedService, 'version' | 'image_digest'>;
type File = PlainComposedService['files'][number];

/** A service of a compose file with its values sealed for the application: contents of files in base64, commands as JSON. */
export function sealComposed(
  { tenant, sealer }: Pick<ComposedSecrets, 'tenant' | 'sealer'>,
  id: string,
  service: DeepReadonly<PlainComposedService>,
): Sealed {
  const { build, command, entrypoint, healthcheck, env, files, ...rest } = plainCopy<PlainComposedService>(service);
  const seal = (text: string, name: string): SealedValue => sealer.seal(text, placeOf(tenant, id, rest.name, name));
  const words = (it: readonly string[], name: string): SealedValue => seal(JSON.stringify(it), `words.${name}`);
  return {
    ...rest,
    ...(build !== undefined && {
      build: { ...build, args: mapped(build.args, (text, name) => sealer.seal(text, argPlace(tenant, id, name))) },
    }),
    ...(command !== undefined && { command: words(command, 'command') }),
    ...(entrypoint !== undefined && { entrypoint: words(entrypoint, 'entrypoint') }),
    ...(healthcheck !== undefined && {
      healthcheck: {
        ...healthcheck,
        ...(healthcheck.command !== undefined && { command: words(healthcheck.command, 'probe') }),
      },
    }),
    env: mapped(env, (text, name) => seal(text, `env.${name}`)),
    files: files.map(({ content, encoding, ...file }) => ({
      ...file,
      ...(content !== undefined && { content: seal(inBase64(content, encoding), `files.${file.path}`) }),
    })),
  };
}

/**
 * The reverse of {@link sealComposed}: the service as its compose file declares it, so that one that is built names no
 * image. @throws Error if a value cannot be unsealed
 */
export function openComposed(
  { tenant, unsealer }: Pick<ComposedSecrets, 'tenant' | 'unsealer'>,
  id: string,
  stored: DeepReadonly<StoredComposedService>,
): PlainComposedService {
  const open = (value: SealedValue, name: string): string =>
    unsealer.unseal(value, placeOf(tenant, id, stored.name, name));
  const words = (it: DeepReadonly<StoredComposedService>['command'], name: string): unknown =>
    it === undefined ? undefined : (plainWords(it) ?? JSON.parse(open(it as SealedValue, `words.${name}`))); // it is not plain
  const { version: _, image_digest: __, image, build, healthcheck, ...rest } = stored;
  return PlainComposedService.parse({
    ...rest,
    ...defined({
      image: build === undefined ? image : undefined,
      build: build && {
        ...build,
        args: mapped(build.args, (value, name) => unsealer.unseal(value, argPlace(tenant, id, name))),
      },
      command: words(stored.command, 'command'),
      entrypoint: words(stored.entrypoint, 'entrypoint'),
      healthcheck: healthcheck && defined({ ...healthcheck, command: words(healthcheck.command, 'probe') }),
    }),
    env: mapped(stored.env, (value, name) => open(value, `env.${name}`)),
    files: stored.files.map(({ content, ...file }) => ({
      ...file,
      ...(content !== undefined && fileContent(Buffer.from(open(content, `files.${file.path}`), 'base64'))),
    })),
  });
}

/** The content of a file as text, or in base64 where it is none. */
export function fileContent(bytes: Uint8Array): Pick<File, 'content' | 'encoding'> {
  try {
    return { content: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return { content: Buffer.from(bytes).toString('base64'), encoding: 'base64' };
  }
}

/** The variables of an application. @throws Error if a value cannot be unsealed */
export function openVariables(
  { tenant, unsealer }: Pick<ComposedSecrets, 'tenant' | 'unsealer'>,
  id: string,
  env: DeepReadonly<Record<string, SealedValue>>,
): Record<string, string> {
  return mapped(env, (value, name) =>
    unsealer.unseal(value, { tenant, kind: 'application', id, path: `config.env.${name}` }),
  );
}

function inBase64(content: string, encoding: File['encoding']): string {
  return encoding === 'base64' ? content : Buffer.from(content).toString('base64');
}

function mapped<A, B>(values: Readonly<Record<string, A>>, change: (value: A, name: string) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value, name)]));
}

/** As that of the build arguments of an application without a compose file: the gateway opens both alike. */
function argPlace(tenant: string, id: string, name: string): SealPlace {
  return { tenant, kind: 'application', id, path: `source.build_args.${name}` };
}

function placeOf(tenant: string, id: string, service: string, name: string): SealPlace {
  return { tenant, kind: 'application', id, path: `${composedPath(service)}.${name}` };
}
