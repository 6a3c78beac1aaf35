import type { WireConfiguration, WireItem } from './assignment.ts';
import type { ControlMessage } from './messages.ts';
import { bounds } from './timing.ts';

type MessageOf<T extends ControlMessage['type']> = Extract<ControlMessage, { type: T }>;
export type SnapshotBegin = Omit<MessageOf<'snapshot.begin'>, 'type'>;

/** One piece of a desired set to send. A configuration comes before the items that refer to it. */
export type Piece = { item: WireItem } | { configuration: WireConfiguration } | { drop: string };

interface Part {
  items: WireItem[];
  configurations: WireConfiguration[];
  drop: string[];
}

/**
 * Makes the messages of a snapshot. Each message is made, and its pieces are read, when the caller takes it: a set of
 * any size costs the memory of one message.
 */
export function* snapshotMessages(begin: SnapshotBegin, pieces: Iterable<Piece>): Generator<ControlMessage> {
  yield { type: 'snapshot.begin', ...begin };
  for (const { items, configurations } of parts(pieces))
    yield { type: 'snapshot.part', items, ...(configurations.length > 0 && { configurations }) };
  yield { type: 'snapshot.end', revision: begin.revision };
}

/** Makes the messages of a change: the deltas that it takes to fit into frames. */
export function* deltaMessages(from: number, to: number, pieces: Iterable<Piece>): Generator<ControlMessage> {
  let at = from;
  for (const { items, configurations, drop } of parts(pieces)) {
    yield { type: 'delta', from: at, to, put: items, drop, ...(configurations.length > 0 && { configurations }) };
    at = to;
  }
}

/** Groups pieces into parts of at most `bounds.batchBytes`; a larger piece is a part of its own. */
function* parts(pieces: Iterable<Piece>): Generator<Part> {
  let part = emptyPart();
  let bytes = 0;
  for (const piece of pieces) {
    const size = JSON.stringify(piece).length;
    if (bytes > 0 && bytes + size > bounds.batchBytes) {
      yield part;
      part = emptyPart();
      bytes = 0;
    }
    bytes += size;
    if ('item' in piece) part.items.push(piece.item);
    else if ('configuration' in piece) part.configurations.push(piece.configuration);
    else part.drop.push(piece.drop);
  }
  if (bytes > 0) yield part;
}

function emptyPart(): Part {
  return { items: [], configurations: [], drop: [] };
}
