import type { Demand } from '../../databases/engine.ts';
import { engines } from '../../databases/engines.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { badField } from '../ground/api-error.ts';

type Demanding = Pick<DesiredOf<'database'>, 'type' | 'require_tls'>;

/** Lets clients of a database connect by TLS alone, or without it, too. @throws ApiError BAD_REQUEST for another engine */
export function setEncryption(draft: Demanding, wanted: boolean | null | undefined): void {
  if (wanted === undefined) return;
  const { encryption, word } = engines[draft.type];
  if (wanted === true && encryption === undefined)
    throw badField(
      'require_tls',
      'unsupported',
      `TLS is not offered for ${word}: PostgreSQL, MySQL and MariaDB speak it`,
    );
  if (wanted === true) draft.require_tls = true;
  else delete draft.require_tls;
}

/** What is demanded of the clients of a database. */
export function demandOf({ require_tls }: { readonly require_tls?: true | undefined }): Demand {
  return { isEncrypted: require_tls === true };
}
