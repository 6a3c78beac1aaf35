import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';
import type { SshLogin } from './connection.ts';
import { SshFailure } from './ssh-failure.ts';

export type LoginUnsealer = Pick<Unsealer, 'unseal'>;

/** The login that the SSH key of a server is for. @throws SshFailure `incomplete`; `bad_key` if the secret does not open */
export function loginOf({ desired }: ReadonlyResource<'server'>, view: TenantView, unsealer: LoginUnsealer): SshLogin {
  const key = desired.ssh_key_id === undefined ? undefined : view.get('ssh_key', desired.ssh_key_id);
  if (key === undefined)
    throw new SshFailure(
      'incomplete',
      'It has no SSH key',
      'Give it one (ssh_key_id), and add its public half to the machine: setpoint set server SERVER --ssh-key KEY',
    );
  const { credential } = key.desired;
  const place = { tenant: view.tenant, kind: 'ssh_key', id: key.meta.id };
  try {
    return credential.type === 'key'
      ? {
          type: 'key',
          privateKey: unsealer.unseal(credential.private_key, { ...place, path: 'credential.private_key' }),
        }
      : { type: 'password', password: unsealer.unseal(credential.password, { ...place, path: 'credential.password' }) };
  } catch (error) {
    const option = credential.type === 'key' ? '--private-key FILE' : '--password';
    const remedy = `Give the control plane the master keys that it was sealed with, or replace the secret of the key: setpoint set ssh-key KEY ${option}`;
    throw new SshFailure('bad_key', 'The control plane cannot open the secret of its SSH key', remedy, {
      cause: error,
    });
  }
}

/** Takes the secret of a login out of what a machine says, also where the scripts have left its characters beyond ASCII out. */
export function hiding(login: SshLogin): (text: string) => string {
  if (login.type === 'key') return (text) => text;
  const { password } = login;
  const forms = [password, password.replaceAll(/[^\u0020-\u007E]/g, '')].filter((form) => form !== '');
  return (text) => forms.reduce((all, form) => all.replaceAll(form, '***'), text);
}
