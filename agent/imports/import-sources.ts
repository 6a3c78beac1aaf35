import type { ImportFolder } from './import-folder.ts';
import type { Uploads } from './uploads.ts';

/** Where dumps that people bring are, and from where they may be fetched. */
export interface ImportSources {
  folder: Pick<ImportFolder, 'file'>;
  uploads: Pick<Uploads, 'file'>;
  /** Networks that dumps may be fetched from beside public addresses. */
  networks: readonly string[];
}
