import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { BodyOf } from '../body-of.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Status } from '../../parts/status.tsx';
import { KeptKindList } from './kept-kind.tsx';
import { allowedText, mostKept, registryRow, usedText } from './kept-text.ts';

/** Registries that images are pulled from with a login. */
export function Registries(): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [told, setTold] = useState<{ ok: boolean; text: string }>();
  const test = async (id: string, name: string): Promise<void> => {
    setTold(undefined);
    await act.run(async () => {
      const { ok, message } = await call(login, 'POST', '/api/v1/settings/registries/{id}/test', { path: { id } });
      setTold({ ok, text: `${name}: ${message}` });
    });
  };
  return (
    <KeptKindList
      kind="registry"
      word="a registry"
      title="Registries"
      about="Logins at registries of images. Applications name one, and its password is sent to that registry only."
      path="/api/v1/settings/registries"
      command="setpoint create registry NAME --address HOST --username USER"
      secrets={['password']}
      start={{ allowed_projects: 'all' }}
      layout={{
        groups: [
          { fields: ['name', 'address', 'username', 'password', 'allowed_projects', 'description', 'untested'] },
        ],
        words: {
          address: { placeholder: 'ghcr.io' },
          untested: { label: 'Keep it also if the control plane cannot log in' },
          allowed_projects: { label: 'Projects that may use it' },
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
        {
          id: 'address',
          title: 'Address',
          cell: ({ address }) => <code>{address}</code>,
          sortBy: ({ address }) => address,
        },
        { id: 'username', title: 'User', cell: ({ username }) => username },
        { id: 'allowed', title: 'For', cell: ({ allowed_projects: allowed }) => allowedText(allowed) },
        {
          id: 'used',
          title: 'Used by',
          cell: (one) => (
            <span class="row">
              <Status kind="registry" object={one} />
              <span class="quiet small">{usedText(one.application_ids.length, 'application')}</span>
            </span>
          ),
        },
      ]}
      list={(reader) => list(reader, '/api/v1/settings/registries', mostKept).then((all) => all.filter(registryRow))}
      create={(body) =>
        // the fields are those of the schema of this body
        call(login, 'POST', '/api/v1/settings/registries', { body: body as BodyOf<'createRegistry'> })
      }
      update={(id, body, ifMatch) =>
        call(login, 'PUT', '/api/v1/settings/registries/{id}', {
          path: { id },
          body: body as BodyOf<'updateRegistry'>, // as above
          ifMatch,
        })
      }
      remove={(id) => call(login, 'DELETE', '/api/v1/settings/registries/{id}', { path: { id } })}
      stays={['Images that servers have pulled already']}
      whyKept={({ application_ids: { length } }) =>
        length === 0 ? undefined : `Images of ${usedText(length, 'application')} are pulled with it`
      }
      verbs={({ id, name }) => [{ label: 'Try to log in', onSelect: () => void test(id, name) }]}
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {told !== undefined && (
        <Notice shape={told.ok ? 'good' : 'bad'}>
          <p>{told.text}</p>
        </Notice>
      )}
    </KeptKindList>
  );
}
