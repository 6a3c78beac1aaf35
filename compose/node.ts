/** Where a value of a compose file is: its path in the model, and where it is written. */
export interface Place {
  /** Such as `services.web.ports.0`; empty for the file as a whole. */
  readonly path: string;
  /** The last part of the path. */
  readonly key: string;
  readonly line: number;
  readonly column: number;
}

export interface ScalarNode extends Place {
  readonly type: 'scalar';
  /** Text is interpolated. */
  readonly value: string | number | boolean | null;
  /** The value as it is written, so that `1.10` stays what it is. */
  readonly text: string;
}
export interface ListNode extends Place {
  readonly type: 'list';
  readonly items: readonly Node[];
}
export interface MapNode extends Place {
  readonly type: 'map';
  readonly fields: ReadonlyMap<string, Node>;
}

/** A value of a compose file, with its aliases and merges resolved. */
export type Node = ScalarNode | ListNode | MapNode;

/** Whether a key was left without a value. */
export function isBlank(node: Node): boolean {
  return node.type === 'scalar' && node.value === null;
}
