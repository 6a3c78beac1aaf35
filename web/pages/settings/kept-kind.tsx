import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Login } from '../../api.ts';
import { whole } from '../../frame/collections.ts';
import { useConsole, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Kind, ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Form } from '../../parts/form.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { SchemaForm } from '../../parts/schema-form.tsx';
import type { FormLayout, Values } from '../../parts/schema-form.tsx';
import type { FieldSpec } from '../../parts/schema-fields.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import type { Column } from '../../parts/table.tsx';
import { changesBetween, useForm } from '../../parts/use-form.ts';
import { AllowedProjects } from '../servers/allowed-projects.tsx';
import { shownPath, useBodyFields } from '../served-fields.ts';

type KeptKind = Extract<Kind, 'registry' | 'git_credential' | 'ssh_key' | 'backup_destination'>;

/** What of a kind that the tenant keeps differs from the others. */
export interface KeptKindProps<K extends KeptKind> {
  readonly kind: K;
  /** As in `a registry`. */
  readonly word: string;
  readonly title: string;
  readonly about: ComponentChildren;
  readonly path: string;
  readonly command: string;
  readonly layout: FormLayout;
  /** Fields that never change once they are set. */
  readonly fixed?: readonly string[];
  /** Secrets of it, by the names of their fields. */
  readonly secrets: readonly string[];
  readonly columns: readonly Column<ObjectOf<K>>[];
  readonly start: Values;
  readonly list: (login: Login) => Promise<ObjectOf<K>[]>;
  readonly create: (body: Values) => Promise<ObjectOf<K>>;
  readonly update: (id: string, body: Values, version: string) => Promise<ObjectOf<K>>;
  readonly remove: (id: string) => Promise<unknown>;
  /** What stays when one is deleted. */
  readonly stays: readonly string[];
  /** Why one cannot be deleted. */
  readonly whyKept: (one: ObjectOf<K>) => string | undefined;
  /** More verbs of one. */
  readonly verbs?: (one: ObjectOf<K>) => readonly { readonly label: string; readonly onSelect: () => void }[];
  /** Below the list, such as what a test has found. */
  readonly children?: ComponentChildren;
  /** Shown once after one was made, such as the key to add elsewhere. */
  readonly made?: (one: ObjectOf<K>) => ComponentChildren;
}

/** A list of what the tenant keeps for all projects, with forms to add and change one. */
export function KeptKindList<K extends KeptKind>(props: KeptKindProps<K>): VNode {
  const { kind, word, title, about, command, columns, list, whyKept, verbs, children } = props;
  const { collections, me } = useConsole();
  const [open, setOpen] = useState<{ edit?: ObjectOf<K>; remove?: ObjectOf<K> } | 'new'>();
  const all = whole(kind, list);
  const read = useList(all, kind);
  const { reading } = read;
  const objects = byName(read.objects);
  const isAdmin = me.value?.role !== 'user';
  const why = isAdmin ? undefined : 'This needs an admin of the tenant';
  const add = (
    <Button tone="primary" icon="plus" why={why} onClick={() => setOpen('new')}>
      Add {word}
    </Button>
  );
  const menu: Column<ObjectOf<K>> = {
    id: 'menu',
    title: 'Actions',
    isNarrow: true,
    isBare: true,
    cell: (one) => (
      <Menu
        label={`Actions of ${one.name}`}
        icon="more"
        tone="plain"
        entries={[
          { label: 'Change', why, onSelect: () => setOpen({ edit: one }) },
          ...(verbs?.(one) ?? []).map((verb) => ({ ...verb, why })),
          'line',
          { label: 'Delete', isDanger: true, why: why ?? whyKept(one), onSelect: () => setOpen({ remove: one }) },
        ]}
      />
    ),
  };
  const closed = (): void => setOpen(undefined);
  return (
    <section class="stack" aria-label={title}>
      <div class="row-apart">
        {objects.length > 0 && <p class="quiet">{about}</p>}
        {objects.length > 0 && add}
      </div>
      {reading.state === 'failed' && (
        <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(all)} />
      )}
      {children}
      {reading.state === 'reading' && <Skeleton label={`Reading ${title.toLowerCase()}`} />}
      {reading.state === 'ready' && (
        <Table
          label={title}
          rows={objects}
          keyOf={({ id }) => id}
          columns={[...columns, menu]}
          empty={
            <EmptyState title={`No ${noun(word)} yet`} action={add} command={command}>
              {about}
            </EmptyState>
          }
        />
      )}
      {open === 'new' && <Entry {...props} onClose={closed} />}
      {open !== undefined && open !== 'new' && open.edit !== undefined && (
        <Entry {...props} object={open.edit} onClose={closed} />
      )}
      {open !== undefined && open !== 'new' && open.remove !== undefined && (
        <Remove {...props} object={open.remove} onClose={closed} />
      )}
    </section>
  );
}

/** `a registry` without its article. */
function noun(word: string): string {
  return word.replace(/^an? /, '');
}

type OpenProps<K extends KeptKind> = KeptKindProps<K> & {
  readonly object?: ObjectOf<K>;
  readonly onClose: () => void;
};

function Entry<K extends KeptKind>(props: OpenProps<K>): VNode {
  const { object, path, word, onClose } = props;
  const fields = useBodyFields(object === undefined ? 'post' : 'put', object === undefined ? path : `${path}/{id}`);
  if (fields.data !== undefined) return <FilledEntry {...props} fields={fields.data} />;
  return (
    <Drawer title={object === undefined ? `Add ${word}` : `Change ${object.name}`} onClose={onClose}>
      {fields.error === undefined ? <Skeleton /> : <ErrorBox error={fields.error} onRetry={fields.again} />}
    </Drawer>
  );
}

/** What the form of an object began with, in its values, and what is stored by now. */
function useBase<K extends KeptKind>(
  kind: K,
  object: ObjectOf<K> | undefined,
  start: Values,
  valuesOf: (held: Values) => Values,
): { values: Values; stored: Values; isBehind: boolean; version: string; take: () => void } {
  const { store } = useConsole();
  const [base, setBase] = useState(object);
  const now = object === undefined ? undefined : (store.get(kind, object.id) ?? object);
  const values = valuesOf({ ...(base ?? start) });
  const stored = valuesOf({ ...(now ?? start) });
  const isBehind = Object.keys(changesBetween(values, stored)).length > 0;
  // what the form does not show may have another version
  const version = (isBehind ? base : now)?.resource_version ?? '';
  return { values, stored, isBehind, version, take: () => setBase(now) };
}

function FilledEntry<K extends KeptKind>(props: OpenProps<K> & { readonly fields: readonly FieldSpec[] }): VNode {
  const {
    kind,
    object,
    word,
    path,
    command,
    layout,
    secrets,
    fixed = [],
    start,
    create,
    update,
    made,
    onClose,
  } = props;
  const { login, store, messages } = useConsole();
  const [shown, setShown] = useState<ObjectOf<K>>();
  const isNew = object === undefined;
  const fields = isNew ? props.fields : props.fields.filter(({ name }) => !fixed.includes(name));
  const base = useBase(kind, object, start, (held) =>
    Object.fromEntries(fields.filter(({ name }) => !secrets.includes(name)).map(({ name }) => [name, held[name]])),
  );
  // a secret that is set already need not be entered again
  const checked = isNew
    ? fields
    : fields.map((field) => (secrets.includes(field.name) ? { ...field, isRequired: false } : field));
  const form = useForm(checked, base.values, async (changed) => {
    const body = isNew ? { ...start, ...changed } : changed;
    const saved = await store.answer(kind, () =>
      object === undefined ? create(body) : update(object.id, body, base.version),
    );
    messages.say(`${saved.name} is saved`);
    if (isNew && made?.(saved) !== undefined && made(saved) !== null) setShown(saved);
    else onClose();
  });
  const isChanged = Object.keys(form.changed).length > 0;
  const take = (): void => {
    base.take();
    form.reset(base.stored);
  };
  const isBehind = base.isBehind && !form.busy;
  if (isBehind && !isChanged) take();
  const title = isNew ? `Add ${word}` : `Change ${object.name}`;
  const id = `entry-${kind}`;
  const { name } = form.values;
  if (shown !== undefined)
    return (
      <Drawer title={shown.name} onClose={onClose} foot={<Button onClick={onClose}>Done</Button>}>
        {made?.(shown)}
      </Drawer>
    );
  return (
    <Drawer
      title={title}
      onClose={onClose}
      dirty={isChanged}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form={id}
            busy={form.busy}
            why={isNew || isChanged ? undefined : 'Nothing is changed'}
          >
            {isNew ? 'Add' : 'Save'}
          </Button>
        </>
      }
    >
      {isBehind && isChanged && (
        <Notice shape="warn">
          <p>It was changed meanwhile. “Discard” takes what is stored; saving is refused until then.</p>
          <Button isSmall onClick={take}>
            Discard
          </Button>
        </Notice>
      )}
      <Form label={title} id={id} error={form.error} onSubmit={form.submit}>
        <SchemaForm
          fields={fields}
          layout={layout}
          values={form.values}
          onChange={form.setValues}
          faults={form.faults}
          setSecrets={isNew ? undefined : new Set(secrets)}
          custom={{ allowed_projects: ({ value, onChange }) => <AllowedProjects value={value} onChange={onChange} /> }}
        />
      </Form>
      <ShowAs
        origin={location.origin}
        request={{
          method: isNew ? 'POST' : 'PUT',
          path: shownPath(login, isNew ? path : `${path}/${object.id}`),
          body: isNew ? { ...start, ...form.changed } : form.changed,
          secrets,
        }}
        command={
          isNew
            ? command.replace('NAME', () => shellQuoted(typeof name === 'string' && name !== '' ? name : 'NAME'))
            : undefined
        }
      />
    </Drawer>
  );
}

function Remove<K extends KeptKind>({ kind, object, word, stays, remove, onClose }: OpenProps<K>): VNode | null {
  const { store, messages } = useConsole();
  const act = useAct();
  if (object === undefined) return null;
  const confirm = async (): Promise<void> => {
    const isDone = await act.run(() => remove(object.id));
    if (!isDone) return;
    store.change({ kind, id: object.id, object: undefined });
    messages.say(`${object.name} is deleted`);
    onClose();
  };
  return (
    <Confirm
      title={`Delete ${object.name}`}
      verb={`Delete ${object.name}`}
      goes={[`The ${noun(word)} ${object.name}`]}
      stays={stays}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void confirm()}
      onClose={onClose}
    />
  );
}
