import { z } from 'zod';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { composeFileOf } from '../../workloads/application-env.ts';
import { targetOf } from '../../resources/status.ts';

export const getComposeFile = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/compose',
  summary: 'The compose file of an application, as it may have secrets, and what its newest deployment made of it',
  on: ['application', 'id'],
  givesSecrets: true,
  response: z
    .object({
      compose_file: z
        .string()
        .nullable()
        .meta({ description: 'null: its source is no compose file, or one in a repository' }),
      deployment_id: z.string().nullable(),
      services: z
        .array(
          z.object({
            name: z.string(),
            image: z.string().nullable(),
            image_digest: z.string().nullable(),
            ports: z.array(z.object({ port: z.int(), publish: z.int().nullable() })),
            depends_on: z.array(z.string()),
          }),
        )
        .meta({ description: 'The one that requests are for first' }),
      notes: z.array(z.string()).meta({ description: 'What of it means something else here than to compose' }),
    })
    .meta({ id: 'ComposeFile' }),
  handle: async (ctx, { it }) => {
    const target = targetOf(it, ctx.view);
    const { source } = it.desired;
    return {
      compose_file:
        source.type === 'compose' && source.compose_file !== undefined
          ? composeFileOf(ctx, it.meta.id, source.compose_file)
          : null,
      deployment_id: target?.meta.id ?? null,
      services: (target?.desired.services ?? []).map(({ name, image, image_digest, ports, depends_on }) => ({
        name,
        image: image ?? null,
        image_digest: image_digest ?? target?.observed?.service_digests?.[name] ?? null,
        ports: ports.map(({ port, publish }) => ({ port, publish: publish ?? null })),
        depends_on: depends_on.map(({ service }) => service),
      })),
      notes: [...(target?.desired.notes ?? [])],
    };
  },
});
