import { z } from 'zod';
import { engines } from '../../../databases/engines.ts';
import { notFound } from '../../ground/api-error.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { Reference } from '../../resources/object-fields.ts';
import { instanceOf } from '../../workloads/database-queries.ts';
import {
  MadeTerminal,
  makeTerminal,
  requireTerminals,
  TerminalShell,
  terminalSize,
} from '../../workloads/terminals.ts';

export const createDatabaseTerminal = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/terminal',
  summary: 'Make a terminal with the client of the engine, logged in: its creator attaches once, within 60 seconds',
  on: ['database', 'id'],
  heavy: true,
  body: z.strictObject({
    shell: TerminalShell.optional().meta({ description: 'A program of the container in place of the client' }),
    instance_id: Reference.optional().meta({ description: 'A database has one instance: it is this one' }),
    ...terminalSize,
  }),
  response: MadeTerminal,
  status: 201,
  handle: async (ctx, { it, body: { shell, instance_id: wanted, cols, rows } }) => {
    const { server_id, type } = it.desired;
    const instance_id = instanceOf(ctx.view, it, 'open a terminal');
    if (wanted !== undefined && wanted !== instance_id) throw notFound('Instance');
    requireTerminals(ctx.view, server_id, 'streams.duplex', 'terminals');
    return makeTerminal(ctx, it, 'POST /databases/:id/terminal', {
      in: 'database',
      database_id: it.meta.id,
      instance_id,
      server_id,
      ...(shell === undefined ? { command: [...engines[type].client] } : { shell }),
      cols,
      rows,
    });
  },
});
