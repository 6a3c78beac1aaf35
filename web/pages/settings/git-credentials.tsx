import type { VNode } from 'preact';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import type { BodyOf } from '../body-of.ts';
import { Command } from '../../parts/command.tsx';
import { Status } from '../../parts/status.tsx';
import type { Values } from '../../parts/schema-form.tsx';
import { KeptKindList } from './kept-kind.tsx';
import { allowedText, gitCredentialRow, mostKept, usedText } from './kept-text.ts';

const isToken = ({ type }: Values): boolean => type === 'token';
const isSsh = ({ type }: Values): boolean => type === 'ssh';

/** What private repositories are read with. */
export function GitCredentials(): VNode {
  const { login } = useConsole();
  return (
    <KeptKindList
      kind="git_credential"
      word="a git credential"
      title="Git credentials"
      about="Tokens and deploy keys for private repositories. Each is sent to its own host only."
      path="/api/v1/settings/git-credentials"
      command="setpoint create git-credential NAME --host HOST"
      secrets={['token', 'private_key', 'passphrase']}
      fixed={['type']}
      start={{ type: 'token', allowed_projects: 'all' }}
      layout={{
        groups: [
          {
            fields: ['name', 'host', 'type', 'token', 'username', 'generate', 'private_key', 'passphrase', 'host_keys'],
          },
          { fields: ['allowed_projects', 'description'] },
        ],
        words: {
          host: { placeholder: 'github.com' },
          type: { options: { token: 'Token for https', ssh: 'Deploy key for ssh' } },
          generate: { label: 'Make a key of this type' },
          private_key: { control: 'long-secret', label: 'Or import a private key' },
          host_keys: { placeholder: 'github.com ssh-ed25519 AAAA…, one a line' },
          allowed_projects: { label: 'Projects that may use it' },
          ca_certificate: { control: 'long-text' },
        },
        visibleWhen: {
          token: isToken,
          username: isToken,
          generate: isSsh,
          private_key: isSsh,
          passphrase: (values) => isSsh(values) && typeof values['private_key'] === 'string',
          host_keys: isSsh,
        },
      }}
      columns={[
        {
          id: 'name',
          title: 'Name',
          isPrimary: true,
          cell: ({ name }) => <span class="strong">{name}</span>,
          sortBy: ({ name }) => name,
        },
        { id: 'host', title: 'Host', cell: ({ host }) => <code>{host}</code>, sortBy: ({ host }) => host },
        {
          id: 'type',
          title: 'Type',
          cell: ({ type }) => (type === 'ssh' ? 'Deploy key' : 'Token'),
          sortBy: ({ type }) => type,
        },
        {
          id: 'key',
          title: 'Public key',
          cell: ({ fingerprint }) => (fingerprint === null ? '' : <code>{fingerprint}</code>),
        },
        { id: 'allowed', title: 'For', cell: ({ allowed_projects: allowed }) => allowedText(allowed) },
        {
          id: 'used',
          title: 'Used by',
          cell: (one) => (
            <span class="row">
              <Status kind="git_credential" object={one} />
              <span class="quiet small">{usedText(one.application_ids.length, 'application')}</span>
            </span>
          ),
        },
      ]}
      list={(reader) =>
        list(reader, '/api/v1/settings/git-credentials', mostKept).then((all) => all.filter(gitCredentialRow))
      }
      create={(body) =>
        // the fields are those of the schema of this body
        call(login, 'POST', '/api/v1/settings/git-credentials', { body: body as BodyOf<'createGitCredential'> })
      }
      update={(id, body, ifMatch) =>
        call(login, 'PUT', '/api/v1/settings/git-credentials/{id}', {
          path: { id },
          body: body as BodyOf<'updateGitCredential'>, // as above
          ifMatch,
        })
      }
      remove={(id) => call(login, 'DELETE', '/api/v1/settings/git-credentials/{id}', { path: { id } })}
      stays={['The token or deploy key at its host: end it there, too']}
      whyKept={({ application_ids: { length } }) =>
        length === 0 ? undefined : `The repositories of ${usedText(length, 'application')} are read with it`
      }
      made={({ public_key: key }) =>
        key === null ? null : (
          <div class="stack-tight">
            <p>Add this deploy key to the repository at its host, for reading.</p>
            <Command text={key} label="Copy public key" />
          </div>
        )
      }
    />
  );
}
