import { Id } from './fields.ts';

/** The template instance that an object belongs to; absent: none. */
export const InstanceId = Id.optional();

/** The owner that follows from it. */
export function instanceOwner({ template_instance_id: id }: { template_instance_id?: string | undefined }) {
  return id === undefined ? [] : [{ kind: 'template_instance', id, blocks: true }];
}

/** An instance takes its children along in an order of its own, and may leave those with data behind. */
export const outlivesInstance = { outlivesDeletionOf: ['template_instance'] } as const;
