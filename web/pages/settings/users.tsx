import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { components } from '../../api-types.d.ts';
import { call, list } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { Button } from '../../parts/button.tsx';
import { Badge, Card } from '../../parts/card.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { Radios, TextInput } from '../../parts/inputs.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';

type Account = components['schemas']['Account'];
type Role = Account['role'];

const mostUsers = 2000;
const roleNotes: Readonly<Record<Role, string>> = {
  superadmin: 'May do everything, also change the settings of the tenant',
  admin: 'May do everything in all projects and with servers',
  user: 'May do what the role in each project allows',
};
const roles: readonly Role[] = ['user', 'admin', 'superadmin'];

/** Who has an account in this tenant, and who is invited to one. */
export function Users(): VNode {
  const { login, me } = useConsole();
  const users = useRead(() => list(login, '/api/v1/users', mostUsers), []);
  const [open, setOpen] = useState<{ role?: Account; remove?: Account } | 'invite'>();
  const act = useAct();
  const setDisabled = async ({ id }: Account, disabled: boolean): Promise<void> => {
    await act.run(() => call(login, 'PUT', '/api/v1/users/{id}', { path: { id }, body: { disabled } }));
    users.again();
  };
  const own = me.value;
  const whyNot = (one: Account): string | undefined => {
    if (one.id === own?.id) return 'This is you';
    return own?.role === 'admin' && one.role !== 'user' ? 'This needs a superadmin of the tenant' : undefined;
  };
  const closed = (): void => {
    setOpen(undefined);
    users.again();
  };
  return (
    <div class="stack">
      <Card
        title="Users"
        actions={
          <Button tone="primary" icon="plus" onClick={() => setOpen('invite')}>
            Invite
          </Button>
        }
      >
        {act.error !== undefined && <ErrorBox error={act.error} />}
        {users.error !== undefined && <ErrorBox error={users.error} onRetry={users.again} />}
        {users.data === undefined && users.error === undefined && <Skeleton label="Reading users" />}
        {users.data !== undefined && (
          <Table
            label="Users"
            rows={users.data}
            keyOf={({ id }) => id}
            sort={{ column: 'email', isDescending: false }}
            columns={[
              {
                id: 'email',
                title: 'Address',
                isPrimary: true,
                sortBy: ({ email }) => email,
                cell: ({ email, id }) => (
                  <span class="row">
                    <span class="strong">{email}</span>
                    {id === own?.id && <Badge>you</Badge>}
                  </span>
                ),
              },
              { id: 'name', title: 'Name', cell: ({ first_name, last_name }) => `${first_name} ${last_name}`.trim() },
              { id: 'role', title: 'Role', cell: ({ role }) => role, sortBy: ({ role }) => roles.indexOf(role) },
              {
                id: 'state',
                title: 'Access',
                isBare: true,
                cell: ({ disabled, two_factor_enabled: hasTwo, confined_to: confined }) => (
                  <span class="row">
                    {disabled ? <Badge tone="bad">Disabled</Badge> : <Badge tone="good">May sign in</Badge>}
                    {hasTwo && <Badge>Two factors</Badge>}
                    {confined !== null && <Badge>Invited projects only</Badge>}
                  </span>
                ),
              },
              {
                id: 'since',
                title: 'Since',
                cell: ({ created_at: at }) => <Time at={at} />,
                sortBy: ({ created_at: at }) => at,
              },
              {
                id: 'menu',
                title: 'Actions',
                isNarrow: true,
                isBare: true,
                cell: (one) => (
                  <Menu
                    label={`Actions of ${one.email}`}
                    icon="more"
                    tone="plain"
                    entries={[
                      { label: 'Change role', why: whyNot(one), onSelect: () => setOpen({ role: one }) },
                      one.disabled
                        ? { label: 'Let sign in again', why: whyNot(one), onSelect: () => void setDisabled(one, false) }
                        : {
                            label: 'Disable',
                            note: 'Ends all sessions',
                            why: whyNot(one),
                            onSelect: () => void setDisabled(one, true),
                          },
                      'line',
                      { label: 'Delete', isDanger: true, why: whyNot(one), onSelect: () => setOpen({ remove: one }) },
                    ]}
                  />
                ),
              },
            ]}
          />
        )}
      </Card>
      <Invites />
      {open === 'invite' && <Invite onClose={closed} />}
      {open !== undefined && open !== 'invite' && open.role !== undefined && (
        <ChangeRole account={open.role} onClose={closed} />
      )}
      {open !== undefined && open !== 'invite' && open.remove !== undefined && (
        <Remove account={open.remove} onClose={closed} />
      )}
    </div>
  );
}

function Invites(): VNode | null {
  const { login } = useConsole();
  const act = useAct();
  const invites = useRead(() => list(login, '/api/v1/users/invites', mostUsers), []);
  const cancel = async (inviteId: string): Promise<void> => {
    await act.run(() => call(login, 'DELETE', '/api/v1/users/invites/{inviteId}', { path: { inviteId } }));
    invites.again();
  };
  if (invites.data === undefined || invites.data.length === 0) return null;
  return (
    <Card title="Invited, not here yet">
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Table
        label="Invites to the tenant"
        rows={invites.data}
        keyOf={({ id }) => id}
        columns={[
          { id: 'email', title: 'Address', isPrimary: true, cell: ({ email }) => <span class="strong">{email}</span> },
          { id: 'role', title: 'Role', cell: ({ role }) => role },
          { id: 'by', title: 'Invited by', cell: ({ invited_by_email: by }) => by ?? '' },
          { id: 'until', title: 'Good until', cell: ({ expires_at: at }) => <Time at={at} /> },
          {
            id: 'cancel',
            title: 'Actions',
            isNarrow: true,
            isBare: true,
            cell: ({ id, email }) => (
              <Button isSmall onClick={() => void cancel(id)}>
                Cancel<span class="sr-only"> the invite of {email}</span>
              </Button>
            ),
          },
        ]}
      />
    </Card>
  );
}

function Invite({ onClose }: { readonly onClose: () => void }): VNode {
  const { login, me, messages } = useConsole();
  const act = useAct();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<'user' | 'admin'>('user');
  const isSuper = me.value?.role === 'superadmin';
  const send = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'POST', '/api/v1/users/invites', { body: { email: email.trim(), role } }),
    );
    if (!isDone) return;
    messages.say(`${email.trim()} is invited by mail`);
    onClose();
  };
  const wrong = act.error?.details?.find(({ field }) => field === 'email')?.message;
  return (
    <Dialog
      title="Invite to the tenant"
      onClose={onClose}
      dirty={email !== ''}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="invite-user"
            busy={act.busy}
            why={email.trim() === '' ? 'Enter an address first' : undefined}
          >
            Send the invite
          </Button>
        </>
      }
    >
      {act.error !== undefined && wrong === undefined && <ErrorBox error={act.error} />}
      <form
        id="invite-user"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <Field label="Address" error={wrong} isRequired>
          {(control) => <TextInput control={control} type="email" value={email} onInput={setEmail} />}
        </Field>
        <FieldGroup label="Role">
          <Radios
            name="role"
            options={(isSuper ? (['user', 'admin'] as const) : (['user'] as const)).map((one) => ({
              value: one,
              label: one,
              note: roleNotes[one],
            }))}
            value={role}
            onChange={(next) => setRole(next === 'admin' ? 'admin' : 'user')}
          />
        </FieldGroup>
      </form>
    </Dialog>
  );
}

function ChangeRole({ account, onClose }: { readonly account: Account; readonly onClose: () => void }): VNode {
  const { login, me } = useConsole();
  const act = useAct();
  const [role, setRole] = useState<Role>(account.role);
  const offered = me.value?.role === 'superadmin' ? roles : roles.filter((one) => one === 'user');
  const save = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'PUT', '/api/v1/users/{id}', {
        path: { id: account.id },
        body: { role },
        ifMatch: account.resource_version,
      }),
    );
    if (isDone) onClose();
  };
  return (
    <Dialog
      title={`Role of ${account.email}`}
      onClose={onClose}
      dirty={role !== account.role}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            busy={act.busy}
            why={role === account.role ? 'Nothing is changed' : undefined}
            onClick={() => void save()}
          >
            Change the role
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <FieldGroup label="Role" help="A change ends the sessions of the user.">
        <Radios
          name="role"
          options={offered.map((one) => ({ value: one, label: one, note: roleNotes[one] }))}
          value={role}
          onChange={(next) => setRole(roles.find((one) => one === next) ?? role)}
        />
      </FieldGroup>
    </Dialog>
  );
}

function Remove({ account, onClose }: { readonly account: Account; readonly onClose: () => void }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const confirm = async (): Promise<void> => {
    if (await act.run(() => call(login, 'DELETE', '/api/v1/users/{id}', { path: { id: account.id } }))) onClose();
  };
  return (
    <Confirm
      title={`Delete ${account.email}`}
      verb="Delete the user"
      goes={[`The account of ${account.email}`, 'Its sessions and service keys', 'Its roles in projects']}
      stays={['Projects and what is in them', 'What the audit log says of it']}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void confirm()}
      onClose={onClose}
    />
  );
}
