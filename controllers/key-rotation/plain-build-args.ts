import { z } from 'zod';
import type { KeyMeaning } from '../../store/keys.ts';
import { Sealed } from '../../store/kinds/fields.ts';
import type { Sealer } from '../../store/seal.ts';

const WithArgs = z.looseObject({ build_args: z.record(z.string(), z.union([Sealed, z.string()])) });
/** The fields in which three kinds hold build arguments, and the application that these belong to. */
const Holder = z.looseObject({
  desired: z.looseObject({
    application_id: z.string().optional(),
    workload_id: z.string().optional(),
    source: WithArgs.optional(),
    spec: WithArgs.optional(),
  }),
});

/**
 * The JSON of a desired record in which the build arguments that an earlier release stored in plain text are sealed;
 * `undefined` if it has none. The rest of the record stays as it is.
 */
export function withSealedBuildArgs(meaning: KeyMeaning, json: string, sealer: Sealer): string | undefined {
  if (meaning.area !== 'desired' || !/"build_args":\{"/.test(json)) return undefined;
  const { success, data: record } = Holder.safeParse(JSON.parse(json));
  if (!success) return undefined;
  const { desired } = record;
  const id = meaning.kind === 'application' ? meaning.id : (desired.application_id ?? desired.workload_id);
  const args = (desired.source ?? desired.spec)?.build_args;
  if (id === undefined || args === undefined) return undefined;
  const plain = Object.entries(args).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  if (plain.length === 0) return undefined;
  for (const [name, value] of plain)
    args[name] = sealer.seal(value, {
      tenant: meaning.tenant,
      kind: 'application',
      id,
      path: `source.build_args.${name}`,
    });
  return JSON.stringify(record);
}
