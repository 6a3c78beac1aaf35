import { z } from 'zod';
import { ticketLifeMs } from '../../auth/stream-tickets.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';

export const createStreamTicket = defineEndpoint({
  method: 'POST',
  path: '/auth/stream-tickets',
  summary: 'Get a ticket that opens one stream once within 30 seconds: for its address, in place of a token',
  body: z.strictObject({
    path: z
      .string()
      .max(500)
      .regex(/^\/ws\/[\w./-]+$/, 'Must be the path of a stream behind the tenant, without query: /ws/…'),
  }),
  response: z.object({
    ticket: z.string().meta({ description: 'For the query parameter `token` of this path' }),
    path: z.string(),
    expires_at: z.string(),
  }),
  status: 201,
  handle: async (ctx, { body: { path } }) => {
    const expires_at = new Date(ctx.clock.now().getTime() + ticketLifeMs).toISOString();
    return { ticket: await ctx.tickets.make(ctx.tenant, ctx.principal, path), path, expires_at };
  },
});
