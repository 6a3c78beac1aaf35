import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call, list } from '../../api.ts';
import { allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRead } from '../../frame/use-read.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { Member } from '../../model.ts';
import type { PageProps } from '../page.ts';
import { projectTabs } from '../project/project-tabs.ts';
import { Button } from '../../parts/button.tsx';
import { Badge, Card } from '../../parts/card.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { Radios, TextInput } from '../../parts/inputs.tsx';
import { Menu } from '../../parts/menu.tsx';
import type { MenuEntry } from '../../parts/menu.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';

type Role = Member['role'];
type GivenRole = Exclude<Role, 'owner'>;

const mostMembers = 2000;
const given: readonly GivenRole[] = ['viewer', 'member', 'admin'];
const notes: Readonly<Record<Role, string>> = {
  viewer: 'may see; secrets are masked',
  member: 'may deploy and change workloads; not give roles',
  admin: 'may also give roles, invite, restore data and delete',
  owner: 'may also give the project to somebody else',
};
const order: readonly Role[] = ['owner', 'admin', 'member', 'viewer'];

type Open = 'invite' | { readonly dialog: 'role' | 'remove' | 'transfer'; readonly member: Member };

/** Who has a role in a project, what that role may do, and who is invited. */
export function MembersPage({ params }: PageProps): VNode {
  const { login, store, me } = useConsole();
  const href = useHref();
  const id = params['projectId'] ?? '';
  useList(allProjects, 'project');
  const project = store.get('project', id);
  const rank = useRank(id);
  const members = useRead(() => list(login, '/api/v1/projects/{id}/members', mostMembers, { path: { id } }), [id]);
  const [open, setOpen] = useState<Open>();
  const why = whyBelow(rank, 'admin');
  const title = project?.display_name ?? project?.name ?? 'Project';
  const [changes, setChanges] = useState(0);
  const closed = (): void => {
    setOpen(undefined);
    setChanges(changes + 1);
    members.again();
  };
  const own = me.value;
  const entriesOf = (member: Member): readonly MenuEntry[] => {
    const isOwn = member.user_id === own?.id;
    const ownerWhy = member.role === 'owner' ? 'The owner gives the project to somebody else first' : undefined;
    return [
      {
        label: 'Change role',
        why: ownerWhy ?? why,
        onSelect: () => setOpen({ dialog: 'role', member }),
      },
      {
        label: 'Make the owner',
        why: member.role === 'owner' ? 'Is the owner already' : whyBelow(rank, 'owner'),
        onSelect: () => setOpen({ dialog: 'transfer', member }),
      },
      'line',
      {
        label: isOwn ? 'Leave' : 'Remove',
        isDanger: true,
        why: ownerWhy ?? (isOwn ? undefined : why),
        onSelect: () => setOpen({ dialog: 'remove', member }),
      },
    ];
  };
  return (
    <Page
      title="Members"
      crumbs={[
        { label: 'Projects', href: href(['projects']) },
        { label: title, href: href(['projects', id]) },
      ]}
      tabs={projectTabs(href, id)}
      current={href(['projects', id, '-', 'members'])}
      actions={
        <Button tone="primary" icon="plus" why={why} onClick={() => setOpen('invite')}>
          Invite
        </Button>
      }
    >
      {members.error !== undefined && <ErrorBox error={members.error} onRetry={members.again} />}
      {members.data === undefined && members.error === undefined && <Skeleton label="Reading members" />}
      {members.data !== undefined && <MemberTable title={title} members={members.data} entriesOf={entriesOf} />}
      {why === undefined && rank !== undefined && <Invites key={changes} projectId={id} />}
      {open !== undefined && <Dialogs open={open} projectId={id} project={project?.name ?? id} onClose={closed} />}
    </Page>
  );
}

interface MemberTableProps {
  readonly title: string;
  readonly members: readonly Member[];
  readonly entriesOf: (member: Member) => readonly MenuEntry[];
}

function MemberTable({ title, members, entriesOf }: MemberTableProps): VNode {
  const { me } = useConsole();
  const own = me.value;
  return (
    <Table
      label={`Members of ${title}`}
      rows={members}
      keyOf={(one) => one.id}
      sort={{ column: 'role', isDescending: false }}
      empty={
        <EmptyState title="Nobody has a role here">Admins of the tenant may do everything without one.</EmptyState>
      }
      columns={[
        {
          id: 'email',
          title: 'Who',
          isPrimary: true,
          sortBy: ({ email }) => email,
          cell: ({ email, user_id: user, status }) => (
            <span class="row">
              <span class="strong">{email}</span>
              {user === own?.id && <Badge>you</Badge>}
              {status === 'disabled' && <Badge tone="bad">Disabled</Badge>}
            </span>
          ),
        },
        { id: 'name', title: 'Name', cell: ({ first_name, last_name }) => `${first_name} ${last_name}`.trim() },
        {
          id: 'role',
          title: 'Role',
          sortBy: ({ role }) => order.indexOf(role),
          cell: ({ role }) => (
            <span>
              <span class="strong">{role}</span> <span class="small quiet">{notes[role]}</span>
            </span>
          ),
        },
        {
          id: 'since',
          title: 'Joined',
          cell: ({ created_at: at }) => <Time at={at} />,
          sortBy: ({ created_at: at }) => at,
        },
        {
          id: 'menu',
          title: 'Actions',
          isNarrow: true,
          isBare: true,
          cell: (one) => <Menu label={`Actions of ${one.email}`} icon="more" tone="plain" entries={entriesOf(one)} />,
        },
      ]}
    />
  );
}

interface DialogsProps extends OfProject {
  readonly open: Open;
  readonly project: string;
}

function Dialogs({ open, projectId, project, onClose }: DialogsProps): VNode {
  if (open === 'invite') return <Invite projectId={projectId} project={project} onClose={onClose} />;
  const shared = { projectId, member: open.member, onClose };
  switch (open.dialog) {
    case 'role':
      return <ChangeRole {...shared} />;
    case 'remove':
      return <Remove {...shared} project={project} />;
    case 'transfer':
      return <Transfer {...shared} project={project} />;
  }
}

function Invites({ projectId: id }: { readonly projectId: string }): VNode | null {
  const { login } = useConsole();
  const act = useAct();
  const invites = useRead(() => list(login, '/api/v1/projects/{id}/invites', mostMembers, { path: { id } }), [id]);
  const cancel = async (inviteId: string): Promise<void> => {
    await act.run(() => call(login, 'DELETE', '/api/v1/projects/{id}/invites/{inviteId}', { path: { id, inviteId } }));
    invites.again();
  };
  if (invites.data === undefined || invites.data.length === 0) return null;
  return (
    <Card title="Invited, not here yet">
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <Table
        label="Invites to the project"
        rows={invites.data}
        keyOf={(one) => one.id}
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
            cell: ({ id: inviteId, email }) => (
              <Button isSmall onClick={() => void cancel(inviteId)}>
                Cancel<span class="sr-only"> the invite of {email}</span>
              </Button>
            ),
          },
        ]}
      />
    </Card>
  );
}

function RoleChoice({
  value,
  onChange,
}: {
  readonly value: GivenRole;
  readonly onChange: (role: GivenRole) => void;
}): VNode {
  return (
    <FieldGroup label="Role">
      <Radios
        name="role"
        options={given.map((role) => ({ value: role, label: role, note: notes[role] }))}
        value={value}
        onChange={(next) => onChange(given.find((role) => role === next) ?? value)}
      />
    </FieldGroup>
  );
}

interface OfProject {
  readonly projectId: string;
  readonly onClose: () => void;
}

function Invite({ projectId, project, onClose }: OfProject & { readonly project: string }): VNode {
  const { login, messages } = useConsole();
  const act = useAct();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<GivenRole>('member');
  const send = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'POST', '/api/v1/projects/{id}/invites', {
        path: { id: projectId },
        body: { email: email.trim(), role },
      }),
    );
    if (!isDone) return;
    messages.say(`${email.trim()} is invited by mail`);
    onClose();
  };
  const wrong = act.error?.details?.find(({ field }) => field === 'email')?.message;
  return (
    <Dialog
      title={`Invite to ${project}`}
      onClose={onClose}
      dirty={email !== ''}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="invite-member"
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
        id="invite-member"
        class="form"
        aria-label={`Invite to ${project}`}
        onSubmit={(event) => {
          event.preventDefault();
          if (email.trim() !== '') void send();
        }}
      >
        <Field label="Address" help="The mail has a link that is good for seven days." error={wrong} isRequired>
          {(control) => <TextInput control={control} type="email" value={email} onInput={setEmail} />}
        </Field>
        <RoleChoice value={role} onChange={setRole} />
      </form>
    </Dialog>
  );
}

type OfMember = OfProject & { readonly member: Member };

function ChangeRole({ projectId, member, onClose }: OfMember): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [role, setRole] = useState<GivenRole>(member.role === 'owner' ? 'admin' : member.role);
  const save = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'PUT', '/api/v1/projects/{id}/members/{memberId}', {
        path: { id: projectId, memberId: member.id },
        body: { role },
        ifMatch: member.resource_version,
      }),
    );
    if (isDone) onClose();
  };
  return (
    <Dialog
      title={`Role of ${member.email}`}
      onClose={onClose}
      dirty={role !== member.role}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            busy={act.busy}
            why={role === member.role ? 'Nothing is changed' : undefined}
            onClick={() => void save()}
          >
            Change the role
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <RoleChoice value={role} onChange={setRole} />
    </Dialog>
  );
}

function Remove({ projectId, project, member, onClose }: OfMember & { readonly project: string }): VNode {
  const { login, me, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const isOwn = member.user_id === me.value?.id;
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      call(login, 'DELETE', '/api/v1/projects/{id}/members/{memberId}', {
        path: { id: projectId, memberId: member.id },
      }),
    );
    if (!isDone) return;
    onClose();
    if (isOwn) router.go(href(['projects']));
  };
  return (
    <Confirm
      title={isOwn ? `Leave ${project}` : `Remove ${member.email}`}
      verb={isOwn ? 'Leave' : 'Remove'}
      goes={[`The role ${member.role} of ${member.email} in ${project}`]}
      stays={['The account', 'What was made and changed in the project']}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}

function Transfer({ projectId, project, member, onClose }: OfMember & { readonly project: string }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const transfer = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('project', () =>
        call(login, 'POST', '/api/v1/projects/{id}/transfer', {
          path: { id: projectId },
          body: { new_owner_id: member.user_id },
        }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Make ${member.email} the owner of ${project}`}
      verb="Give it away"
      goes={['The ownership of the owner of before, who becomes an admin']}
      stays={['Everything in the project', 'The roles of all others']}
      type={project}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void transfer()}
      onClose={onClose}
    />
  );
}
