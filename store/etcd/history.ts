import { randomUUID } from 'node:crypto';
import type { IResponseHeader } from 'etcd3';
import { rewound } from '../errors.ts';
import { keys } from '../keys.ts';
import { revision } from '../revision.ts';
import type { Revision } from '../revision.ts';
import type { Endpoints } from './endpoints.ts';
import { toStoreError } from './failure.ts';

/** Read for its value, and by calls that need only the header of an answer: so rights to our keys are enough. */
export const markKey = Buffer.from(keys.meta('incarnation'));

interface Position {
  revision: number;
  term: number;
}

interface Mark {
  value: string;
  modRevision: string;
}

/**
 * Which history etcd serves. Its incarnation is the cluster's id with a mark that lies in the store. A restored cluster
 * has another cluster id, or a revision or raft term below one that was seen before. A process that notices the latter
 * replaces the mark, so that the others learn of it.
 */
export class History {
  readonly #endpoints: Endpoints;
  #incarnation = '';
  #seen: Position = { revision: 0, term: 0 };

  constructor(endpoints: Endpoints) {
    this.#endpoints = endpoints;
  }

  get incarnation(): string {
    return this.#incarnation;
  }

  /** Reads the mark; the first process ever writes it. */
  async open(): Promise<void> {
    const { header, mark } = await this.#read();
    this.#adopt(header, mark?.value ?? (await this.#write(mark)));
  }

  /** Notes the revision and term in the header of an answer. @returns the revision. */
  observe(header: IResponseHeader): Revision {
    const at = revision(header.revision);
    this.#seen = {
      revision: Math.max(this.#seen.revision, at),
      term: Math.max(this.#seen.term, Number(header.raft_term)),
    };
    return at;
  }

  /**
   * Asks the cluster whether a watch can start at `from`.
   *
   * @throws Rewound if not; if the cluster has another history, the incarnation has changed then.
   */
  async check(from: Revision): Promise<void> {
    const before = this.#seen; // from answers that arrived before this request was sent
    const { header, mark } = await this.#read();
    const now = { revision: revision(header.revision), term: Number(header.raft_term) };
    const isKnown = mark !== undefined && incarnationOf(header, mark.value) === this.#incarnation;
    const isBehind = now.revision < before.revision || now.term < before.term;
    if (!isKnown || isBehind) {
      const value = mark === undefined || isKnown ? await this.#write(mark) : mark.value;
      this.#seen = now;
      this.#adopt(header, value);
      throw rewound(this.#incarnation, `etcd is at revision ${now.revision} of another history than before`);
    }
    this.observe(header);
    if (from > now.revision + 1)
      throw rewound(this.#incarnation, `wanted revision ${from}, the store is at ${now.revision}`);
  }

  #adopt(header: IResponseHeader, value: string): void {
    this.#incarnation = incarnationOf(header, value);
    this.observe(header);
  }

  async #read(): Promise<{ header: IResponseHeader; mark: Mark | undefined }> {
    try {
      const { header, kvs } = await this.#endpoints.repeatable(({ client, options }) =>
        client.kv.range({ key: markKey }, options),
      );
      const kv = kvs[0];
      return { header, mark: kv && { value: kv.value.toString(), modRevision: kv.mod_revision } };
    } catch (error) {
      throw toStoreError(error, 'read the incarnation');
    }
  }

  /** Replaces the mark that was read. @returns the present mark: ours, or that of a process that was faster. */
  async #write(old: Mark | undefined): Promise<string> {
    const value = randomUUID();
    try {
      const answer = await this.#endpoints.once(({ client, options }) =>
        client.kv.txn(
          {
            compare: [{ key: markKey, target: 'Mod', result: 'Equal', mod_revision: old?.modRevision ?? 0 }],
            success: [{ request_put: { key: markKey, value: Buffer.from(value) } }],
            failure: [{ request_range: { key: markKey } }],
          },
          options,
        ),
      );
      this.observe(answer.header);
      if (answer.succeeded) return value;
      return answer.responses[0]?.response_range.kvs[0]?.value.toString() ?? value;
    } catch (error) {
      throw toStoreError(error, 'write the incarnation');
    }
  }
}

function incarnationOf(header: IResponseHeader, mark: string): string {
  return `${header.cluster_id}:${mark}`;
}
