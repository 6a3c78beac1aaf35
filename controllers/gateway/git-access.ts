import type { GitCredential } from '../../agent-protocol/git-credential.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Unsealer } from '../../store/seal.ts';
import { Unopened } from './unopened.ts';

/**
 * What a repository is read with, opened for the wire.
 *
 * @throws Unopened if the credential was deleted or does not open: nothing is read with less
 */
export function gitAccessOf(
  { view, unsealer }: { view: Pick<TenantView, 'get'>; unsealer: Unsealer },
  id: string,
): GitCredential {
  const it = view.get('git_credential', id);
  if (it === undefined)
    throw new Unopened(
      `The git credential ${id} is not in the store any more: give the application another git_credential_id, and deploy it`,
    );
  const { name, host, credential } = it.desired;
  const place = (field: string) => ({
    tenant: it.meta.tenant,
    kind: 'git_credential',
    id,
    path: `credential.${field}`,
  });
  try {
    if (credential.type === 'ssh') {
      const privateKey = unsealer.unseal(credential.private_key, place('private_key'));
      return { type: 'ssh', host, private_key: privateKey, host_keys: [...credential.host_keys] };
    }
    const { username, ca_certificate } = credential;
    const token = unsealer.unseal(credential.token, place('token'));
    return { type: 'token', host, username, token, ...(ca_certificate !== undefined && { ca_certificate }) };
  } catch (cause) {
    const message = `The git credential ${name} cannot be decrypted: its key is not on the control plane. Restore the key file, or give the credential its secret anew`;
    throw new Unopened(message, { cause });
  }
}
