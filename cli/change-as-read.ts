import type { ApiObject, Client } from './client.ts';
import { Refused } from './client.ts';

const mostAttempts = 5;

/**
 * Changes an object by `bodyOf` what was read of it: a list that is sent as a whole takes nothing away that others have added
 * since. After another change it is read and changed again. `query` begins with `?`. @throws Refused
 */
export async function changeAsRead(
  client: Client,
  { path, query = '' }: { path: string; query?: string },
  read: ApiObject,
  bodyOf: (it: ApiObject) => object,
): Promise<ApiObject> {
  let it = read;
  for (let attempt = 1; ; attempt += 1) {
    const version = String(it['resource_version']);
    try {
      return await client.object('PUT', `${path}${query}`, bodyOf(it), { 'if-match': version });
    } catch (error) {
      const isOld = error instanceof Refused && error.reasons.includes('mismatch');
      if (!isOld || attempt === mostAttempts) throw error;
      it = await client.object('GET', path);
    }
  }
}
