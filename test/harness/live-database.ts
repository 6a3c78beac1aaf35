import { z } from 'zod';
import { labels } from '../../agent/runtime/runtime.ts';
import type { ApiObject } from '../../cli/client.ts';
import type { DatabaseType } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import { Credentials } from './database-client.ts';
import { ensureDatabaseImage } from './database-images.ts';
import type { DatabaseEngine } from './database-images.ts';
import { containersWith, docker } from './engine.ts';
import { Installation } from './installation.ts';

const patientMs = 120_000;
const Made = z.object({ data_volume_id: z.string() });

/** The engines of which there are images. */
export const liveEngines: readonly DatabaseEngine[] = ['postgres', 'mysql', 'mariadb', 'redis'];

/** An installation whose databases are of these images. */
export async function databaseTown(types: readonly DatabaseType[]): Promise<Installation> {
  const images: string[] = [];
  for (const type of types) images.push(`${type}=${await ensureDatabaseImage(type)}`);
  return Installation.start({ store: 'sqlite', serverFlags: ['--engine-images', images.join(',')] });
}

/** A database of an installation with the engine of containers that it is on. */
export class LiveDatabase {
  readonly id: string;
  readonly path: string;
  /** Its volume at the engine. */
  readonly volume: string;
  readonly #town: Installation;
  readonly #client: readonly string[];

  private constructor(town: Installation, type: DatabaseType, { id, ...fields }: ApiObject) {
    this.#town = town;
    this.id = id;
    this.path = `/api/v1/databases/${id}`;
    this.volume = `sp-vol-${Made.parse(fields).data_volume_id}`;
    this.#client = engines[type].client;
  }

  /** Asks for a database, and does not wait for it. */
  static async create(town: Installation, type: DatabaseType, fields: object = {}): Promise<LiveDatabase> {
    const asked = { project_id: town.project.id, server_id: town.server.id, name: 'orders', type, ...fields };
    return LiveDatabase.of(town, type, await town.client.object('POST', '/api/v1/databases', asked));
  }

  /** That of an answer of the API. */
  static of(town: Installation, type: DatabaseType, answer: ApiObject): LiveDatabase {
    return new LiveDatabase(town, type, answer);
  }

  async is(status: string): Promise<ApiObject> {
    let now: ApiObject | undefined;
    const isThere = async (): Promise<ApiObject | false> => {
      now = await this.#town.client.object('GET', this.path);
      const ready = now.conditions?.find(({ type }) => type === 'Ready')?.status;
      const isDone = now.observed_generation === now.generation && (status !== 'running' || ready === 'true');
      return now.status === status && isDone && now;
    };
    return this.#town.until(`the database is ${status}`, isThere, patientMs).catch((cause: unknown) => {
      throw new Error(`It is not ${status}: ${JSON.stringify(now?.conditions)}`, { cause });
    });
  }

  verb(name: string): Promise<unknown> {
    return this.#town.client.request('POST', `${this.path}/${name}`, {});
  }

  async credentials(): Promise<Credentials> {
    return Credentials.parse(await this.#town.client.request('GET', `${this.path}/credentials`));
  }

  containers(): Promise<string[]> {
    return containersWith(labels.workload, this.id);
  }

  /** Its one container. @throws Error if it has none, or several */
  async container(): Promise<string> {
    const [only, ...others] = await this.containers();
    if (only === undefined || others.length > 0)
      throw new Error(`It has ${only === undefined ? 0 : 1 + others.length}`);
    return only;
  }

  /** What the client of the engine answers in its container, logged in. */
  async ask(args: readonly string[]): Promise<string> {
    return docker('exec', await this.container(), ...this.#client, ...args);
  }

  async delete(): Promise<void> {
    await this.#town.client.request('DELETE', `${this.path}?wait=60`, undefined);
  }
}
