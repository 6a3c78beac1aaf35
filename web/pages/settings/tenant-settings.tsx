import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { components } from '../../api-types.d.ts';
import { call, Refused } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useRead } from '../../frame/use-read.ts';
import type { BodyOf } from '../body-of.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { Form } from '../../parts/form.tsx';
import { Notice } from '../../parts/notice.tsx';
import { SaveBar } from '../../parts/save-bar.tsx';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { FormLayout, Values } from '../../parts/schema-form.tsx';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useForm } from '../../parts/use-form.ts';
import { useBodyFields } from '../served-fields.ts';

type Settings = components['schemas']['Settings'];

const formId = 'tenant-settings';
const whoMay = { users: 'Everybody', admins: 'Admins of the tenant' };
const layout: FormLayout = {
  groups: [
    { title: 'Who may', fields: ['project_creation', 'new_addresses', 'server_terminals'] },
    { title: 'Where to', fields: ['registries', 'backup_endpoints'] },
    { fields: ['budgets'] },
  ],
  words: {
    project_creation: { label: 'Create projects', options: whoMay },
    new_addresses: {
      label: 'Invite addresses without an account',
      options: { users: 'Everybody who may invite', admins: 'Admins of the tenant' },
    },
    server_terminals: {
      label: 'Open terminals of servers',
      options: { admins: 'Admins of the tenant', superadmins: 'Superadmins only' },
    },
    registries: {
      label: 'Registries that images may come from',
      help: 'HOST, HOST:PORT, or *.HOST for those below a name, one a line. Empty: all.',
    },
    backup_endpoints: {
      label: 'Private endpoints of backup destinations',
      help: 'HOST or HOST:PORT that may be on this machine, in a private network, or asked by plain http, one a line.',
    },
    budgets: { help: 'For each project, for each user, and for the tenant as a whole. 0 is no bound of its own.' },
  },
};

/** What holds for the whole tenant. */
export function TenantSettings(): VNode {
  const { login } = useConsole();
  const settings = useRead(() => call(login, 'GET', '/api/v1/settings'), []);
  const fields = useBodyFields('put', '/api/v1/settings');
  const error = (settings.data === undefined ? settings.error : undefined) ?? fields.error;
  if (error !== undefined) return <ErrorBox error={error} onRetry={settings.again} />;
  if (settings.data === undefined || fields.data === undefined)
    return <Skeleton lines={8} label="Reading the settings" />;
  return <Entry stored={settings.data} again={settings.again} fields={fields.data} />;
}

function valuesOf(settings: Settings, fields: readonly FieldSpec[]): Values {
  const all: Values = { ...settings };
  return Object.fromEntries(fields.map(({ name }) => [name, all[name]]));
}

interface EntryProps {
  /** As they were read last. */
  readonly stored: Settings;
  readonly again: () => void;
  readonly fields: readonly FieldSpec[];
}

function Entry({ stored, again, fields }: EntryProps): VNode {
  const { login, me, messages } = useConsole();
  const [base, setBase] = useState(stored);
  const [read, setRead] = useState(stored);
  const form = useForm(fields, valuesOf(base, fields), async (changed) => {
    // the fields are those of the schema of this body
    const body = changed as BodyOf<'updateSettings'>;
    const saved = await call(login, 'PUT', '/api/v1/settings', { body, ifMatch: base.resource_version }).catch(
      (error: unknown) => {
        // the watch does not send them
        if (error instanceof Refused && error.status === 409) again();
        throw error;
      },
    );
    take(saved);
    messages.say('The settings are saved');
  });
  const take = (now: Settings): void => {
    setBase(now);
    setRead(stored);
    form.reset(valuesOf(now, fields));
  };
  const isBehind = stored !== read;
  const why = me.value?.role === 'superadmin' ? undefined : 'Only a superadmin of the tenant may change these';
  return (
    <>
      {why !== undefined && (
        <Notice shape="info">
          <p>{why}.</p>
        </Notice>
      )}
      {isBehind && (
        <Notice shape="warn">
          <p>They were changed meanwhile. “Discard” takes what is stored; saving is refused until then.</p>
        </Notice>
      )}
      <Form label="Settings of the tenant" id={formId} error={form.error} onSubmit={form.submit}>
        <SchemaForm
          fields={fields}
          layout={layout}
          values={form.values}
          onChange={form.setValues}
          faults={form.faults}
        />
      </Form>
      <SaveBar
        form={formId}
        changes={fieldChanges(valuesOf(base, fields), form.values)}
        busy={form.busy}
        why={why}
        effect="holds from the next request on"
        onDiscard={() => take(isBehind ? stored : base)}
      />
    </>
  );
}
