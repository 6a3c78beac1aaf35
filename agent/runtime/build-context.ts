/** A file, folder or link of a build context. All are of the user root. */
export type ContextEntry = {
  /** Below the context, with `/` between names. */
  path: string;
  /** The path where it is no text in UTF-8, which `path` shows then. */
  rawPath?: Buffer;
  modifiedAt: Date;
} & (
  | { type: 'folder' }
  /** The target is as it is written, and may lead anywhere: it is never followed here. */
  | { type: 'link'; target: string; rawTarget?: Buffer }
  | { type: 'file'; mode: number; size: number; read(): AsyncIterable<Uint8Array> }
);
