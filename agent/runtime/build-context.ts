/** A file, folder or link of a build context. All are of the user root. */
export type ContextEntry = {
  /** Below the context, with `/` between names. */
  path: string;
  modifiedAt: Date;
} & (
  | { type: 'folder' }
  | { type: 'link'; target: string }
  | { type: 'file'; mode: number; size: number; read(): AsyncIterable<Uint8Array> }
);
