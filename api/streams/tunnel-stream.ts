import { z } from 'zod';
import { CallError } from '../../agent-protocol/call-error.ts';
import { mention } from '../../store/audit/mention.ts';
import { projectIdOf } from '../endpoint/subject.ts';
import { ApiError } from '../ground/api-error.ts';
import { requireAgent } from '../workloads/agent-capability.ts';
import { instanceOf } from '../workloads/database-queries.ts';
import type { Channel } from './channel.ts';
import { closeCode } from './close-code.ts';
import { readyNow } from './live.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';

/** A tunnel ends after this time in any case. A client may be idle for as long: pools are. */
const mostMs = 12 * 3_600_000;

const End = z.object({ type: z.literal('end') });

const route = 'WS /ws/databases/:id/tunnel';

export const databaseTunnel = defineStream({
  path: '/ws/databases/:id/tunnel',
  summary:
    'One connection to a database by the agent of its server: binary frames both ways after `ready`; `end` ends what is sent to it',
  on: ['database', 'id'],
  query: z.object({}),
  reads: true,
  async run(ctx, { it, channel }) {
    const { view, principal, tenant, audit, request, access, clock } = ctx;
    let assignment: string;
    try {
      requireAgent(view.agent(it.desired.server_id), 'streams.tunnel', { lack: 'leads no connections to databases' });
      assignment = instanceOf(view, it, 'connect again');
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      channel.send({ type: 'error', code: error.code, message: error.message });
      return error.code;
    }
    const began = clock.monotonic();
    const counted = { in: 0, out: 0 };
    const about = [mention(it), { kind: 'assignment', id: assignment }];
    const projectId = projectIdOf(it);
    const caller = { caller: principal, role: access.column };
    const asked = { tenant, view, route, request, ...caller, ...(projectId !== undefined && { projectId }) };
    await audit.opened(asked, about);
    channel.send({ ...readyNow(clock), instance_id: assignment });
    const reason = await relay(ctx, { server: it.desired.server_id, assignment, channel, counted });
    const seconds = Math.round((clock.monotonic() - began) / 1000);
    await audit.closed(asked, about, { seconds, bytes_in: counted.in, bytes_out: counted.out, reason });
    return reason;
  },
});

interface Relay {
  server: string;
  assignment: string;
  channel: Channel;
  counted: { in: number; out: number };
}

/** Passes bytes in both directions until the database or the reader ends the connection. Returns the reason. */
async function relay(
  { agents, tenant, clock }: StreamContext,
  { server, assignment, channel, counted }: Relay,
): Promise<string> {
  let over: string | undefined;
  const end = (code: Parameters<Channel['close']>[0], reason: string): void => {
    over ??= reason;
    channel.close(code, reason);
  };
  const cancel = clock.timer(mostMs, () => end(closeCode.ended, 'open for 12 hours'));

  async function* outgoing(): AsyncGenerator<Uint8Array> {
    for await (const { data, isBinary } of channel.messages()) {
      if (isBinary) {
        counted.in += data.length;
        yield data;
      } else if (isEnd(data)) return;
      else return end(closeCode.malformed, 'a message is not one of a tunnel');
    }
  }

  try {
    const params = { kind: 'tunnel', assignment } as const;
    for await (const data of agents.duplex(tenant, server, params, outgoing(), { signal: channel.signal })) {
      counted.out += data.length;
      channel.sendBytes(data);
      await channel.drained();
    }
    return over ?? 'ended';
  } catch (error) {
    if (channel.signal.aborted) return over ?? 'closed';
    if (!(error instanceof CallError)) throw error;
    channel.send({ type: 'error', code: error.code, message: error.message });
    return error.code;
  } finally {
    cancel();
  }
}

function isEnd(data: Buffer): boolean {
  try {
    return End.safeParse(JSON.parse(data.toString())).success;
  } catch {
    return false;
  }
}
