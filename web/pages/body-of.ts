import type { operations } from '../api-types.d.ts';

/** The body that an operation takes, for a form that is made from the schema of the same operation. */
export type BodyOf<O extends keyof operations> = operations[O] extends {
  requestBody?: { content: { 'application/json': infer B } };
}
  ? B
  : never;
