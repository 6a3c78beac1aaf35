import { z } from 'zod';
import { forbiddable } from '../../../agent-protocol/messages.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import {
  MadeTerminal,
  makeTerminal,
  requireTerminals,
  TerminalShell,
  terminalSize,
} from '../../workloads/terminals.ts';

export const createServerTerminal = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/terminal',
  summary: 'Make a terminal of a server: its creator attaches at /ws/terminal/{sessionId}, once, within 60 seconds',
  on: ['server', 'id'],
  heavy: true,
  body: z.strictObject({
    shell: TerminalShell.optional().meta({ description: 'By default that of the user of the agent' }),
    ...terminalSize,
  }),
  response: MadeTerminal,
  status: 201,
  handle: async (ctx, { it, body: { shell, cols, rows } }) => {
    requireTerminals(ctx.view, it.meta.id, forbiddable.serverTerminals, 'terminals of the server');
    return makeTerminal(ctx, it, 'POST /servers/:id/terminal', {
      in: 'server',
      server_id: it.meta.id,
      ...(shell !== undefined && { shell }),
      cols,
      rows,
    });
  },
});
