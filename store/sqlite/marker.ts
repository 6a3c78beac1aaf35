import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs';
import { hostname } from 'node:os';

/** The content of a marker: the newest revision seen in a file, and the process that held the file then. */
export interface Marked {
  incarnation: string;
  revision: number;
  pid: number;
  host: string;
}

/** Fits one sector, so a rewrite is never seen half done. */
const size = 512;

/** Reads the marker at `path`; `undefined` if there is none or it cannot be parsed. */
export function readMarker(path: string): Marked | undefined {
  try {
    // Only this module writes it; with any other content the comparison of its fields fails.
    return JSON.parse(readFileSync(path, 'utf8')) as Marked;
  } catch {
    return undefined;
  }
}

/**
 * The small file beside a database that holds its newest revision. A database that is behind its marker, or of
 * another incarnation, was restored from a copy. It is rewritten at every commit without a flush of its own: after a
 * power cut it may be behind the database, never ahead.
 */
export class Marker {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  }

  write(at: { incarnation: string; revision: number }): void {
    const marked: Marked = { incarnation: at.incarnation, revision: at.revision, pid: process.pid, host: hostname() };
    writeSync(this.#fd, JSON.stringify(marked).padEnd(size), 0);
  }

  /** Like `write`, but a failure only leaves the marker behind, which is harmless. */
  tryWrite(at: { incarnation: string; revision: number }): void {
    try {
      this.write(at);
    } catch {
      // the commit that is being marked is durable without it
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}
