import type { WireItem, WireConfiguration } from '../../agent-protocol/assignment.ts';
import { desiredDigest } from '../../agent-protocol/desired-digest.ts';
import { deltaMessages, snapshotMessages } from '../../agent-protocol/desired-parts.ts';
import type { Piece } from '../../agent-protocol/desired-parts.ts';
import type { ControlMessage, Position } from '../../agent-protocol/messages.ts';

/** The messages of a snapshot. */
export function snapshotOf(
  { incarnation, revision }: Position,
  items: readonly WireItem[],
  keep: string[] = [],
  configurations: readonly WireConfiguration[] = [],
): Generator<ControlMessage> {
  const begin = { incarnation, revision, count: items.length, digest: desiredDigest(items), keep };
  return snapshotMessages(begin, piecesOf(items, [], configurations));
}

/** The messages of a change. */
export function deltaOf(
  from: number,
  to: number,
  put: readonly WireItem[],
  drop: readonly string[],
  configurations: readonly WireConfiguration[] = [],
): Generator<ControlMessage> {
  return deltaMessages(from, to, piecesOf(put, drop, configurations));
}

function* piecesOf(
  items: readonly WireItem[],
  drop: readonly string[],
  configurations: readonly WireConfiguration[],
): Generator<Piece> {
  for (const id of drop) yield { drop: id };
  for (const configuration of configurations) yield { configuration };
  for (const item of items) yield { item };
}
