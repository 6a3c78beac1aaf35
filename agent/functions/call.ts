import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { ExecutionTrigger } from '../../agent-protocol/functions.ts';

/** What an instance answered. The body ends with an error if the instance does. */
export interface Reply {
  status: number;
  headers: OutgoingHttpHeaders;
  body: Readable;
}

/** One call of a function. */
export interface Call {
  trigger: ExecutionTrigger;
  /** The instant that a call by the schedule is for. */
  scheduledAt?: string;
  method: string;
  /** With the query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: Readable | Uint8Array;
  /** Takes the answer. Resolves when all of it was taken. */
  answer(reply: Reply): Promise<void>;
}
