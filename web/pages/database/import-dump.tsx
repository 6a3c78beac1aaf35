import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, upload } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { labelOfDatabaseVerb, whyNotDatabaseVerb } from '../../frame/database-verbs.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { ObjectOf } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Command } from '../../parts/command.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { FileDrop } from '../../parts/file-drop.tsx';
import { Form } from '../../parts/form.tsx';
import { Radios, TextInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { bytesText } from '../../parts/units.ts';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import { engineName } from './engine-name.ts';
import { whyNoImport } from './import-draft.ts';
import type { DumpSource, ImportDraft } from './import-draft.ts';
import type { Database } from './tab-props.ts';

type Restore = ObjectOf<'restore'>;

const dumps: Readonly<Record<Exclude<Database['type'], 'mongodb'>, string>> = {
  postgres: 'Of one database by pg_dump: statements, or the custom format (-Fc).',
  mysql: 'Statements, as of mysqldump.',
  mariadb: 'Statements, as of mariadb-dump or mysqldump.',
  redis: 'A file as of redis-cli --rdb, or dump.rdb.',
};

/** Begins to import a dump that was made elsewhere. */
export function ImportDump({ it }: { readonly it: Database }): VNode {
  if (it.type === 'mongodb')
    return (
      <Card title={labelOfDatabaseVerb('import')}>
        <p>
          Dumps are not imported into {engineName(it.type)}: open a way to the database, and use mongorestore on it.
        </p>
        <Command text={`setpoint db connect ${shellQuoted(it.name)}`} />
      </Card>
    );
  return <Importing it={it} dump={dumps[it.type]} />;
}

/** How much of a file was sent. */
interface Sending {
  readonly name: string;
  readonly sent: number;
  readonly size: number;
}

function Importing({ it, dump }: { readonly it: Database; readonly dump: string }): VNode {
  const { login, store } = useConsole();
  const rank = useRank(it.project_id);
  const act = useAct();
  const stop = useRef<AbortController | undefined>(undefined);
  const [draft, setDraft] = useState<ImportDraft>({ source: 'file', file: undefined, address: '', path: '' });
  const [asks, setAsks] = useState(false);
  const [sending, setSending] = useState<Sending>();
  const below = whyNotDatabaseVerb('import', it, rank);
  const set = (change: Partial<ImportDraft>): void => {
    act.clear();
    setDraft({ ...draft, ...change });
  };
  useUnsaved(sending !== undefined, 'The file is still being sent. Stop that and leave?');
  // what nobody looks at any more is not sent on
  useEffect(() => () => stop.current?.abort(), []);
  const send = async ({ source, file, address, path }: ImportDraft): Promise<Restore> => {
    const of = { id: it.id };
    if (source === 'address')
      return call(login, 'POST', '/api/v1/databases/{id}/import', { path: of, body: { url: address.trim() } });
    if (source === 'server')
      return call(login, 'POST', '/api/v1/databases/{id}/restore-from-path', {
        path: of,
        body: { path: path.trim() },
      });
    if (file === undefined) throw new Error('No file is chosen'); // the button says so
    const { name, size } = file;
    const stopped = new AbortController();
    stop.current = stopped;
    setSending({ name, size, sent: 0 });
    try {
      return await upload(login, '/api/v1/databases/{id}/import', {
        path: of,
        file,
        onSent: (sent) => setSending({ name, size, sent }),
        signal: stopped.signal,
      });
    } finally {
      setSending(undefined);
    }
  };
  const begin = async (): Promise<void> => {
    setAsks(false);
    await act.run(() => store.answer('restore', () => send(draft)));
  };
  return (
    <Card title={labelOfDatabaseVerb('import')}>
      {below !== undefined && (
        <Notice shape="info">
          <p>{below}</p>
        </Notice>
      )}
      {sending !== undefined ? (
        <SendingView it={sending} onStop={() => stop.current?.abort()} />
      ) : (
        <Form
          label={`Import a dump into ${it.name}`}
          verb={`${labelOfDatabaseVerb('import')} into ${it.name}`}
          busy={act.busy}
          why={below ?? whyNoImport(draft)}
          error={act.error}
          onSubmit={() => {
            setAsks(true);
            return true;
          }}
        >
          <SourceFields draft={draft} dump={dump} isOfTenant={rank === 'global'} set={set} />
        </Form>
      )}
      {asks && (
        <Confirm
          title={`Import a dump into ${it.name}`}
          verb={`Import into ${it.name}`}
          goes={[
            `What ${it.name} serves now, once the dump was read and checked`,
            'Connections that are open at that moment',
          ]}
          stays={['What it serves now, in a volume of its own for a week', 'Its name, its port and its password']}
          type={it.name}
          command={commandOf(it, draft)}
          onConfirm={() => void begin()}
          onClose={() => setAsks(false)}
        />
      )}
    </Card>
  );
}

function commandOf({ name }: Database, { source, file, address, path }: ImportDraft): string {
  const from =
    source === 'file'
      ? `--file ${shellQuoted(file?.name ?? 'FILE')}`
      : source === 'address'
        ? `--url ${shellQuoted(address.trim())}`
        : `--path ${shellQuoted(path.trim())}`;
  return `setpoint db import ${shellQuoted(name)} ${from}`;
}

interface SourceProps {
  readonly draft: ImportDraft;
  /** What a dump of its engine is. */
  readonly dump: string;
  readonly isOfTenant: boolean;
  readonly set: (change: Partial<ImportDraft>) => void;
}

function SourceFields({ draft, dump, isOfTenant, set }: SourceProps): VNode {
  const { source, file, address, path } = draft;
  return (
    <>
      <FieldGroup label="Where the dump is" help={`${dump} It may be compressed by gzip or zstd.`}>
        <Radios
          name="source"
          options={[
            { value: 'file', label: 'In a file of this machine', note: 'it is sent from here' },
            { value: 'address', label: 'At an address', note: 'its server fetches it' },
            ...(isOfTenant
              ? [{ value: 'server', label: 'In a file of its server', note: 'below the folder for imports' }]
              : []),
          ]}
          value={source}
          onChange={(next) => set({ source: next as DumpSource })} // one of the options
        />
      </FieldGroup>
      {source === 'file' && (
        <FileDrop
          label="File"
          help={file === undefined ? 'Drop it here, too.' : `${file.name}, ${bytesText(file.size)}`}
          onFiles={([first]) => set({ file: first })}
        />
      )}
      {source === 'address' && (
        <Field label="Address" help="From public addresses by https. No answer shows what comes after “?”." isRequired>
          {(control) => (
            <TextInput
              control={control}
              value={address}
              onInput={(next) => set({ address: next })}
              placeholder="https://dumps.example.com/orders.dump"
              isMono
            />
          )}
        </Field>
      )}
      {source === 'server' && (
        <Field label="Path" help="Below the folder for imports. The file stays." isRequired>
          {(control) => (
            <TextInput
              control={control}
              value={path}
              onInput={(next) => set({ path: next })}
              placeholder="orders.sql.gz"
              isMono
            />
          )}
        </Field>
      )}
    </>
  );
}

function SendingView({
  it: { name, sent, size },
  onStop,
}: {
  readonly it: Sending;
  readonly onStop: () => void;
}): VNode {
  return (
    <div class="stack-tight">
      <p>
        {name} is being sent: <span class="numeric">{bytesText(sent)}</span> of {bytesText(size)}. Stay on this page
        until it is there; nothing is touched before.
      </p>
      <progress class="progress" aria-label={`Sent of ${name}`} value={sent} max={size} />
      <div class="actions">
        <Button onClick={onStop}>Stop sending</Button>
      </div>
    </div>
  );
}
