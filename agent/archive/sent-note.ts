import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { writeAtomically } from '../disk/atomic-file.ts';
import { readIfThere } from '../disk/read-if-there.ts';

/** Names of files that are remembered after they were sent: an engine hands over again only the last few. */
const mostRemembered = 256;

const Instant = z.object({ until: z.string(), segment: z.string() });

/** What is known of an archive after the end of its agent. */
const SentNote = z.object({
  system_identifier: z.string().optional(),
  last_segment: z.string().optional(),
  sent_at: z.string().optional(),
  /** The last instant that the engine put into a segment, and the last one that the bucket has. */
  beat: Instant.optional(),
  shown: Instant.optional(),
  sent: z.array(z.object({ name: z.string(), sha256: z.string() })),
});
export type SentNote = z.infer<typeof SentNote>;

/** The notes of the archives of this server, a file each. */
export class SentNotes {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws Error if it cannot be read: what was sent is then not known */
  async of(archive: string): Promise<SentNote> {
    const text = await readIfThere(this.#path(archive));
    return text === undefined ? { sent: [] } : SentNote.parse(JSON.parse(text));
  }

  /** Resolves when the note is on the disk. */
  async write(archive: string, note: SentNote): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const sent = note.sent.slice(-mostRemembered);
    await writeAtomically(this.#path(archive), `${JSON.stringify({ ...note, sent })}\n`);
  }

  async forget(archive: string): Promise<void> {
    await rm(this.#path(archive), { force: true });
  }

  #path(archive: string): string {
    return join(this.#folder, `${archive}.json`);
  }
}
