import { readMessage, type Message } from './protobuf.ts';

/** A step of a build, or what the engine does around the steps. */
export interface Vertex {
  digest: string;
  name: string;
  isCached: boolean;
  /** Milliseconds since 1970; `undefined`: not yet. */
  startedAt: number | undefined;
  completedAt: number | undefined;
  error: string;
}

/** Something that a vertex does, such as the transfer of a layer. */
export interface VertexStatus {
  vertex: string;
  id: string;
  current: number;
  startedAt: number | undefined;
  completedAt: number | undefined;
}

export interface VertexLog {
  vertex: string;
  at: number;
  /** 1: standard output, 2: standard error. */
  stream: number;
  text: Buffer;
}

/** What BuildKit tells of a build: `StatusResponse` of its control API. */
export interface Trace {
  vertexes: Vertex[];
  statuses: VertexStatus[];
  logs: VertexLog[];
}

/** @throws RangeError if it is none */
export function readTrace(data: Buffer): Trace {
  const message = readMessage(data);
  return {
    vertexes: message.messages(1).map((one) => ({
      digest: one.text(1),
      name: one.text(3),
      isCached: one.number(4) === 1,
      startedAt: time(one, 5),
      completedAt: time(one, 6),
      error: one.text(7),
    })),
    statuses: message.messages(2).map((one) => ({
      id: one.text(1),
      vertex: one.text(2),
      current: one.number(4),
      startedAt: time(one, 7),
      completedAt: time(one, 8),
    })),
    logs: message.messages(3).map((one) => ({
      vertex: one.text(1),
      at: time(one, 2) ?? 0,
      stream: one.number(3),
      text: one.bytes(4),
    })),
  };
}

function time(message: Message, field: number): number | undefined {
  const [value] = message.messages(field);
  return value === undefined ? undefined : value.number(1) * 1000 + value.number(2) / 1e6;
}
