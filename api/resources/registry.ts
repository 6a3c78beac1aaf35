import { z } from 'zod';
import { registry } from '../../store/kinds/registry.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { registryVerbs } from '../../rules/registry.ts';
import { FreeText, Line } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

/** What users of projects may see of a registry. */
const RegistrySummary = z
  .object({ id: z.string(), name: z.string(), address: z.string() })
  .meta({ id: 'RegistrySummary' });

export const Registry = z
  .object({
    ...objectFields,
    name: z.string(),
    description: z.string().nullable(),
    address: z.string().meta({ description: 'HOST or HOST:PORT, as images name it; docker.io for the default one' }),
    username: z.string(),
    allowed_projects: z
      .union([z.literal('all'), z.array(z.string())])
      .meta({ description: 'Projects that may use it' }),
    application_ids: z.array(z.string()).meta({ description: 'Applications whose images are pulled with it' }),
    status: z.enum(registryVerbs.states),
  })
  .meta({ id: 'Registry' });
type Registry = z.infer<typeof Registry>;

const label = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const addressPattern = new RegExp(`^${label}(\\.${label})*(:[1-9][0-9]{0,4})?$`);
const RegistryAddress = z
  .string()
  .max(260)
  .regex(addressPattern, 'Must be a registry as images name it, such as registry.example.com:5000')
  .transform((address) => address.toLowerCase().replace(/^index\.docker\.io$/, 'docker.io'))
  .refine(
    (address) => /[.:]/.test(address) || address === 'localhost',
    'Must have a dot or a port: images name no other registries',
  );

const fields = z.strictObject({
  name: registry.desired.shape.name,
  description: FreeText.max(2000).nullish(),
  address: RegistryAddress.meta({
    description: 'The password is sent to this registry only, and to its own token server',
    override: { type: 'string' },
  }),
  username: z.string().regex(/^[^\p{C}:]{1,255}$/u, 'Must be a user name without colon'),
  password: Line.min(1)
    .max(4096)
    .refine((text) => text.isWellFormed(), 'Must be text')
    .meta({ description: 'Password or token that may pull; it is never shown again' }),
  allowed_projects: z
    .union([z.literal('all'), z.array(Reference).max(1000)])
    .nullish()
    .meta({ description: 'Projects that may use it; an application that has it keeps it until its next deployment' }),
  untested: z.boolean().nullish().meta({
    description: 'true: accept it also if the control plane cannot log in, as to a registry that only servers reach',
  }),
  labels: Labels.optional(),
});

export const RegistryCreate = fields;
export const RegistryUpdate = fields.partial();

/** What a login came to. */
export const RegistryTest = z.object({
  ok: z.boolean(),
  reason: z.string().nullable().meta({ description: 'Such as wrong_credentials, unreachable or not_allowed' }),
  message: z.string(),
});

function toRegistry(
  it: ReadonlyResource<'registry'>,
  { application_ids }: { application_ids: readonly string[] },
): Registry {
  const { name, description, address, username, allowed_projects } = it.desired;
  return {
    ...objectFieldsOf(it),
    name,
    description: description ?? null,
    address,
    username,
    allowed_projects: allowed_projects === undefined ? 'all' : [...allowed_projects],
    application_ids: [...application_ids],
    status: application_ids.length === 0 ? 'unused' : 'used',
  };
}

export const registries = defineResource({
  kind: 'registry',
  word: 'Registry',
  project: 'tenant',
  answer: Registry,
  seen: ({ meta }, view) => ({ application_ids: view.by('application', 'registry', meta.id).map((it) => it.meta.id) }),
  show: toRegistry,
  masked: {
    answer: RegistrySummary,
    show: ({ meta, desired: { name, address } }) => ({ id: meta.id, name, address }),
  },
  list: {
    texts: ({ desired }) => [desired.name, desired.address, desired.description],
    status: {
      values: registryVerbs.states,
      of: ({ meta }, view) => (view.by('application', 'registry', meta.id).length === 0 ? 'unused' : 'used'),
    },
  },
  verbs: registryVerbs,
  watch: {
    shows: {
      application: ({ before, after }) =>
        before?.desired.registry_id === after?.desired.registry_id
          ? []
          : [before, after].flatMap((it) => it?.desired.registry_id ?? []),
    },
  },
});
