import type { VNode } from 'preact';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import type { BodyOf } from '../body-of.ts';
import { Command } from '../../parts/command.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Status } from '../../parts/status.tsx';
import { KeptKindList } from './kept-kind.tsx';
import { mostKept, usedText } from './kept-text.ts';

/** What the control plane logs in to machines with. */
export function SshKeys(): VNode {
  const { login } = useConsole();
  return (
    <KeptKindList
      kind="ssh_key"
      word="an SSH key"
      title="SSH keys"
      about="Keys with which agents are installed on machines. The secret half never leaves the control plane."
      path="/api/v1/settings/ssh-keys"
      command="setpoint create ssh-key NAME"
      secrets={['private_key', 'passphrase', 'password']}
      start={{}}
      layout={{
        groups: [
          { fields: ['name', 'description'] },
          {
            title: 'Without any of these, an Ed25519 key is made',
            fields: ['generate', 'private_key', 'passphrase', 'password'],
          },
        ],
        words: {
          generate: { label: 'Make a key of this type' },
          private_key: { control: 'long-secret', label: 'Or import a private key' },
          password: { label: 'Or keep a password' },
        },
        visibleWhen: { passphrase: ({ private_key: key }) => typeof key === 'string' },
      }}
      columns={[
        {
          id: 'name',
          title: 'Name',
          isPrimary: true,
          cell: ({ name }) => <span class="strong">{name}</span>,
          sortBy: ({ name }) => name,
        },
        { id: 'type', title: 'Type', cell: ({ type }) => type, sortBy: ({ type }) => type },
        {
          id: 'fingerprint',
          title: 'Fingerprint',
          cell: ({ fingerprint, public_key: key }) =>
            fingerprint === null ? (
              ''
            ) : (
              <span class="row">
                <code>{fingerprint}</code>
                {key !== null && <Copy text={key} label="Copy public key" />}
              </span>
            ),
        },
        {
          id: 'used',
          title: 'Used by',
          cell: (one) => (
            <span class="row">
              <Status kind="ssh_key" object={one} />
              <span class="quiet small">{usedText(one.server_ids.length, 'server')}</span>
            </span>
          ),
        },
      ]}
      list={(reader) => list(reader, '/api/v1/settings/ssh-keys', mostKept)}
      create={(body) =>
        // the fields are those of the schema of this body
        call(login, 'POST', '/api/v1/settings/ssh-keys', { body: body as BodyOf<'createSshKey'> })
      }
      update={(id, body, ifMatch) =>
        call(login, 'PUT', '/api/v1/settings/ssh-keys/{id}', {
          path: { id },
          body: body as BodyOf<'updateSshKey'>, // as above
          ifMatch,
        })
      }
      remove={(id) => call(login, 'DELETE', '/api/v1/settings/ssh-keys/{id}', { path: { id } })}
      stays={['Its line in authorized_keys of machines: remove it there, too']}
      whyKept={({ server_ids: { length } }) =>
        length === 0 ? undefined : `${usedText(length, 'server')} are logged in to with it`
      }
      made={({ public_key: key }) =>
        key === null ? null : (
          <div class="stack-tight">
            <p>Add this line to ~/.ssh/authorized_keys of the user on each machine.</p>
            <Command text={key} label="Copy public key" />
          </div>
        )
      }
    />
  );
}
