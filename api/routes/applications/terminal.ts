import { z } from 'zod';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { isStaying } from '../../../store/resource.ts';
import { servingDeployment } from '../../../store/serving.ts';
import { badRequest, conflicting, notFound } from '../../ground/api-error.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { ServiceName } from '../../resources/fields.ts';
import { Reference } from '../../resources/object-fields.ts';
import {
  MadeTerminal,
  makeTerminal,
  requireTerminals,
  TerminalShell,
  terminalSize,
} from '../../workloads/terminals.ts';

export const createApplicationTerminal = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/terminal',
  summary: 'Make a terminal in an instance: its creator attaches at /ws/terminal/{sessionId}, once, within 60 seconds',
  on: ['application', 'id'],
  heavy: true,
  body: z.strictObject({
    shell: TerminalShell.optional().meta({
      description: 'By default the first of /bin/bash, /bin/ash, /bin/sh and busybox that the container has',
    }),
    command: z
      .array(z.string().max(4096))
      .min(1)
      .max(256)
      .optional()
      .meta({ description: 'Program and arguments, in place of a shell; no shell reads them' }),
    instance_id: Reference.optional().meta({ description: 'By default the ready instance with the lowest number' }),
    service: ServiceName.meta({ description: 'Of its compose file; by default the one that requests are for' }),
    ...terminalSize,
  }),
  response: MadeTerminal,
  status: 201,
  handle: async (ctx, { it, body: { shell, command, instance_id, service, cols, rows } }) => {
    const { view } = ctx;
    if (shell !== undefined && command !== undefined) throw badRequest('Only one of shell and command can be given');
    const { instance_id: id, server_id } = instanceOf(view, it, { id: instance_id, service });
    requireTerminals(view, server_id, 'streams.duplex', 'terminals');
    const [program, ...args] = command ?? [];
    return makeTerminal(ctx, it, 'POST /applications/:id/terminal', {
      in: 'instance',
      application_id: it.meta.id,
      instance_id: id,
      server_id,
      ...(program !== undefined && { command: [program, ...args] }),
      ...(shell !== undefined && { shell }),
      cols,
      rows,
    });
  },
});

/** The instance for a terminal. @throws ApiError NOT_FOUND, CONFLICT if it does not run */
function instanceOf(
  view: TenantView,
  { meta, desired }: ReadonlyResource<'application'>,
  { id: wanted, service }: { id: string | undefined; service: string | undefined },
): { instance_id: string; server_id: string } {
  const services = view.by('assignment', 'workload', meta.id).flatMap((it) =>
    it.desired.spec.type === 'service'
      ? [
          {
            id: it.meta.id,
            server: it.desired.server_id,
            service: it.desired.service,
            slot: it.desired.spec.slot,
            isToStay: it.desired.run === 'running' && isStaying(it),
            observed: it.observed,
          },
        ]
      : [],
  );
  const main = service ?? servingDeployment(view, meta.id)?.desired.services?.[0]?.name;
  const named = services.filter((it) =>
    wanted === undefined ? main === undefined || it.service === main : it.id === wanted,
  );
  if (wanted !== undefined && named.length === 0) throw notFound('Instance');
  const [chosen] = named
    .filter(({ isToStay, observed }) => isToStay && observed?.phase === 'running')
    .toSorted((a, b) => Number(b.observed?.ready === true) - Number(a.observed?.ready === true) || a.slot - b.slot);
  if (chosen === undefined)
    throw conflicting(
      desired.run === 'stopped'
        ? 'The application is stopped: start it, then open a terminal'
        : wanted === undefined
          ? 'No instance of the application runs at the moment: wait until one is ready, then open a terminal'
          : 'The instance does not run at the moment: choose another one, or wait until it is ready',
    );
  return { instance_id: chosen.id, server_id: chosen.server };
}
