import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import type { Login } from '../../api.ts';
import { databasesOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyNotDatabaseVerb } from '../../frame/database-verbs.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { usePlaceNames } from '../../frame/place-names.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useRead } from '../../frame/use-read.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Radios, TextInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { exactTime } from '../../parts/relative-time.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { Steps } from '../../parts/steps.tsx';
import { bytesText } from '../../parts/units.ts';
import { WindowBar } from '../../parts/window-bar.tsx';
import type { Span } from '../../parts/window-times.ts';
import { useBackupsOf } from '../backups/use-backups-of.ts';
import { shownPath } from '../served-fields.ts';
import { touchedBy, whyNotYet } from './restore-draft.ts';
import type { RestoreDraft } from './restore-draft.ts';
import type { Database } from './tab-props.ts';

type Backup = ObjectOf<'backup'>;
type Restore = ObjectOf<'restore'>;

interface FlowProps {
  readonly it: Database;
  /** The backup that another page led here with. */
  readonly backupId: string | undefined;
}

const stages = ['When', 'Into', 'Check', 'Switch', 'Done'] as const;

/** Asks step by step when a database is brought back to, and into what; each step says what it touches. */
export function RestoreFlow({ it, backupId }: FlowProps): VNode {
  const rank = useRank(it.project_id);
  const { backups, reading } = useBackupsOf('database', it.id);
  const spans = useSpans(it);
  const good = backups.filter(({ status }) => status === 'completed');
  const [stage, setStage] = useState<0 | 1 | 2>(backupId === undefined ? 0 : 1);
  const [draft, setDraft] = useState<RestoreDraft>({
    when: backupId === undefined ? undefined : { backup: backupId },
    into: 'same',
    newName: '',
    otherId: undefined,
  });
  const set = (change: Partial<RestoreDraft>): void => setDraft({ ...draft, ...change });
  const href = useHref();
  const parts = useDatabaseParts();
  const below = whyNotDatabaseVerb('restore', it, rank);
  if (reading.state === 'ready' && good.length === 0 && spans.length === 0)
    return (
      <EmptyState
        title="Nothing to go back to yet"
        action={<LinkButton href={href(parts(it, 'backups'))}>Backups of {it.name}</LinkButton>}
        command={`setpoint backup ${shellQuoted(it.name)}`}
      >
        A restore needs a good backup, or an archive of what the database writes. Make a backup, or a schedule of them.
      </EmptyState>
    );
  return (
    <Card title={`Restore ${it.name}`}>
      <Steps
        label="Steps of the restore"
        steps={stages.map((name, at) => ({
          name,
          status: at < stage ? 'done' : at === stage ? 'running' : 'waiting',
        }))}
      />
      {below !== undefined && (
        <Notice shape="info">
          <p>{below}</p>
        </Notice>
      )}
      {stage < 2 && (
        <Notice shape="good">
          <p>Touched now: nothing. {it.name} goes on serving while you choose.</p>
        </Notice>
      )}
      {stage === 0 && (
        <>
          <When it={it} good={good} spans={spans} draft={draft} set={set} />
          <div class="form-foot">
            <Button
              tone="primary"
              why={draft.when === undefined ? 'Choose a backup or an instant first' : undefined}
              onClick={() => setStage(1)}
            >
              Next: into what
            </Button>
          </div>
        </>
      )}
      {stage === 1 && (
        <>
          <Into it={it} draft={draft} set={set} />
          <div class="form-foot">
            <Button tone="primary" why={whyNotYet(draft)} onClick={() => setStage(2)}>
              Next: look at it
            </Button>
            <Button onClick={() => setStage(0)}>Back</Button>
          </div>
        </>
      )}
      {stage === 2 && <Review it={it} backups={good} draft={draft} why={below} onBack={() => setStage(1)} />}
    </Card>
  );
}

/** What the archive of a database can be brought back to. */
function useSpans(it: Database): readonly Span[] {
  const { login } = useConsole();
  const window = useRead(
    async () =>
      it.type === 'postgres'
        ? call(login, 'GET', '/api/v1/databases/{id}/recovery-window', { path: { id: it.id } })
        : undefined,
    [it.id, it.resource_version, JSON.stringify(it.conditions)],
  ).data;
  return (window?.windows ?? []).map(({ earliest_time: from, latest_time: to }) => ({
    from: Date.parse(from),
    to: Date.parse(to),
  }));
}

interface StageProps {
  readonly it: Database;
  readonly draft: RestoreDraft;
  readonly set: (change: Partial<RestoreDraft>) => void;
}

const mostListed = 50;

function When(props: StageProps & { readonly good: readonly Backup[]; readonly spans: readonly Span[] }): VNode {
  const { it, good, spans, draft, set } = props;
  const href = useHref();
  const parts = useDatabaseParts();
  const { when } = draft;
  const last = spans.at(-1)?.to;
  const chosen = when !== undefined && 'instant' in when ? when.instant : last;
  const isInstant = when !== undefined && 'instant' in when;
  return (
    <div class="stack">
      {last === undefined || chosen === undefined ? (
        it.type === 'postgres' && (
          <Notice shape="info" actions={<LinkButton href={href(parts(it, 'settings'))}>Turn it on</LinkButton>}>
            <p>
              {it.backup_mode === 'pitr'
                ? 'It is archived. Its window opens with the first base backup, some minutes after that was turned on.'
                : 'It is not archived: it can be brought back to its backups, and to no instant between them.'}
            </p>
          </Notice>
        )
      ) : (
        <section class="stack-tight" aria-label="To an instant">
          <div class="row-apart">
            <h3>To an instant</h3>
            <Button isSmall pressed={isInstant} onClick={() => set({ when: { instant: chosen } })}>
              Take this instant
            </Button>
          </div>
          <WindowBar
            label="Instant to go back to"
            spans={spans}
            marks={good.flatMap(({ completed_at: at }) => (at === null ? [] : [Date.parse(at)]))}
            value={chosen}
            onChange={(instant) => set({ when: { instant } })}
          />
        </section>
      )}
      {good.length > 0 && (
        <fieldset class="form-group">
          <legend>To a backup</legend>
          <Radios
            name="backup"
            options={good.slice(0, mostListed).map((one) => ({
              value: one.id,
              label: exactTime(one.completed_at ?? one.requested_at),
              note: [
                one.size_bytes === null ? '' : bytesText(one.size_bytes),
                one.method === 'physical' ? 'base backup' : 'dump',
                one.trigger === 'manual' ? 'by hand' : 'by a schedule',
              ]
                .filter((part) => part !== '')
                .join(', '),
            }))}
            value={when !== undefined && 'backup' in when ? when.backup : undefined}
            onChange={(backup) => set({ when: { backup } })}
          />
          {good.length > mostListed && (
            <p class="quiet">
              The newest {mostListed} of {good.length}. <a href={href(parts(it, 'backups'))}>All of them</a>
            </p>
          )}
        </fieldset>
      )}
    </div>
  );
}

function Into({ it, draft, set }: StageProps): VNode {
  const isInstant = draft.when !== undefined && 'instant' in draft.when;
  const others = byName(
    useList(databasesOf(it.project_id), 'database').objects.filter(
      (one) =>
        one.project_id === it.project_id && one.id !== it.id && one.type === it.type && one.version === it.version,
    ),
  );
  const placeOf = usePlaceNames([it, ...others]);
  return (
    <div class="form">
      <Radios
        name="into"
        options={[
          {
            value: 'same',
            label: `Into ${it.name}`,
            note: isInstant
              ? 'by a copy beside it, which you look at first'
              : 'by a copy beside it, once that is checked',
          },
          { value: 'new', label: 'Into a new database', note: `${it.name} is not touched` },
          ...(isInstant
            ? []
            : [{ value: 'other', label: 'Into another one', note: 'of the same engine, version, user and database' }]),
        ]}
        value={draft.into}
        onChange={(into) => set({ into: into as RestoreDraft['into'] })} // one of the options
      />
      {draft.into === 'new' && (
        <Field label="Name of the new database" isRequired>
          {(control) => (
            <TextInput
              control={control}
              value={draft.newName}
              onInput={(newName) => set({ newName })}
              placeholder={`${it.name}-before`}
            />
          )}
        </Field>
      )}
      {draft.into === 'other' && (
        <Field label="The other database" help="What it holds now is in its former volume for a week." isRequired>
          {(control) => (
            <Combobox
              control={control}
              options={others.map((one) => ({ value: one.id, label: one.name, note: placeOf(one) }))}
              value={draft.otherId}
              onChange={(otherId) => set({ otherId })}
              empty="The project has no other one of this engine and version"
            />
          )}
        </Field>
      )}
    </div>
  );
}

interface ReviewProps {
  readonly it: Database;
  readonly backups: readonly Backup[];
  readonly draft: RestoreDraft;
  readonly why: string | undefined;
  readonly onBack: () => void;
}

function Review({ it, backups, draft, why, onBack }: ReviewProps): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const [asks, setAsks] = useState(false);
  const other = draft.otherId === undefined ? undefined : store.get('database', draft.otherId);
  const target = draft.into === 'same' ? it : draft.into === 'other' ? other : undefined;
  const placeOf = usePlaceNames(target === undefined ? [it] : [it, target]);
  const { when } = draft;
  const backup = when !== undefined && 'backup' in when ? backups.find(({ id }) => id === when.backup) : undefined;
  const replaces = when !== undefined && 'backup' in when && target !== undefined;
  const plan = planOf(it, draft);
  const begin = async (): Promise<void> => {
    let made: Restore | undefined;
    const isDone = await act.run(async () => {
      made = await store.answer('restore', () => plan.send(login));
    });
    if (!isDone || made === undefined) return;
    setAsks(false);
    if (draft.into !== 'same') router.go(href(['restores', made.id]));
  };
  const verb = replaces
    ? `Restore ${target.name}`
    : draft.into === 'new'
      ? `Make ${draft.newName.trim()}`
      : 'Make the copy';
  return (
    <div class="stack">
      {act.error !== undefined && !asks && <ErrorBox error={act.error} />}
      <Facts
        of={[
          ['Back to', backTo(when, backup)],
          [
            'Into',
            target === undefined ? `the new database ${draft.newName.trim()}` : `${target.name} of ${placeOf(target)}`,
          ],
        ]}
      />
      <section class="stack-tight" aria-label="What is touched">
        <h3>What is touched</h3>
        <ol class="touched">
          {touchedBy(draft, it.name).map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ol>
      </section>
      <div class="form-foot">
        <Button
          tone="primary"
          busy={act.busy}
          why={why ?? whyNotYet(draft)}
          onClick={() => {
            if (replaces) setAsks(true);
            else void begin();
          }}
        >
          {verb}
        </Button>
        <Button onClick={onBack}>Back</Button>
      </div>
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, plan.path), body: plan.body }}
        command={plan.command}
      />
      {asks && target !== undefined && (
        <Confirm
          title={`Restore ${target.name}`}
          verb={`Restore ${target.name}`}
          goes={[
            `What ${target.name} of ${placeOf(target)} serves now, once the backup was read and checked`,
            'Connections that are open at that moment',
          ]}
          stays={['What it serves now, in a volume of its own for a week', 'Its name, its port and its password']}
          type={target.name}
          command={plan.command}
          busy={act.busy}
          error={act.error}
          onConfirm={() => void begin()}
          onClose={() => {
            act.clear();
            setAsks(false);
          }}
        />
      )}
    </div>
  );
}

function backTo(when: RestoreDraft['when'], backup: Backup | undefined): string {
  if (when !== undefined && 'instant' in when) return exactTime(new Date(when.instant).toISOString());
  return exactTime(backup?.completed_at ?? backup?.requested_at ?? '');
}

interface Plan {
  readonly path: string;
  readonly body: Readonly<Record<string, string>>;
  readonly command: string;
  readonly send: (login: Login) => Promise<Restore>;
}

/** The request that a draft means. */
function planOf(it: Database, { when, into, newName, otherId }: RestoreDraft): Plan {
  const name = newName.trim();
  const path = { id: it.id };
  if (when !== undefined && 'instant' in when) {
    const target_time = new Date(when.instant).toISOString();
    const command = `setpoint pitr ${shellQuoted(it.name)} --to ${target_time}`;
    if (into === 'new') {
      const body = { target_time, new_name: name };
      return {
        path: `/api/v1/databases/${it.id}/pitr-clone`,
        body,
        command: `${command} --as ${shellQuoted(name)}`,
        send: (login) => call(login, 'POST', '/api/v1/databases/{id}/pitr-clone', { path, body }),
      };
    }
    const body = { target_time };
    return {
      path: `/api/v1/databases/${it.id}/pitr`,
      body,
      command,
      send: (login) => call(login, 'POST', '/api/v1/databases/{id}/pitr', { path, body }),
    };
  }
  const backup = when?.backup ?? '';
  if (into === 'same') {
    const body = { backup_id: backup };
    return {
      path: `/api/v1/databases/${it.id}/restore`,
      body,
      command: `setpoint restore ${backup}`,
      send: (login) => call(login, 'POST', '/api/v1/databases/{id}/restore', { path, body }),
    };
  }
  const body = into === 'new' ? { new_name: name } : { database_id: otherId ?? '' };
  return {
    path: `/api/v1/backups/database/${backup}/restore`,
    body,
    command: `setpoint restore ${backup} ${into === 'new' ? `--as ${shellQuoted(name)}` : `--into ${otherId ?? ''}`}`,
    send: (login) => call(login, 'POST', '/api/v1/backups/database/{id}/restore', { path: { id: backup }, body }),
  };
}
