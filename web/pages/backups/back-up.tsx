import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Select } from '../../parts/inputs.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { shownPath } from '../served-fields.ts';
import { DestinationChoice } from './destination-choice.tsx';

type Backup = ObjectOf<'backup'>;

interface BackUpBody {
  readonly destination_id?: string;
  readonly expires_at?: string;
}

/** Makes a backup of a database now, while it serves. */
export function BackUpDatabase(props: {
  readonly database: ObjectOf<'database'>;
  readonly onClose: () => void;
}): VNode {
  const { database, onClose } = props;
  const { login } = useConsole();
  const path = { id: database.id };
  return (
    <BackUp
      name={database.name}
      about="It is a dump of all that the database holds, taken while it serves. It takes processor, disk and network of its server."
      path={`/api/v1/databases/${database.id}/backups`}
      ask={(body) => call(login, 'POST', '/api/v1/databases/{id}/backups', { path, body })}
      onClose={onClose}
    />
  );
}

/** Makes a backup of a volume now, while it is used. */
export function BackUpVolume(props: { readonly volume: ObjectOf<'volume'>; readonly onClose: () => void }): VNode {
  const { volume, onClose } = props;
  const { login } = useConsole();
  const path = { id: volume.id };
  return (
    <BackUp
      name={volume.name}
      about="It is an archive of its files, read while they are used: one that changes meanwhile is counted. What cannot bear that, stop before."
      path={`/api/v1/volumes/${volume.id}/backup`}
      ask={(body) => call(login, 'POST', '/api/v1/volumes/{id}/backup', { path, body })}
      onClose={onClose}
    />
  );
}

interface BackUpProps {
  readonly name: string;
  readonly about: string;
  readonly path: string;
  readonly ask: (body: BackUpBody) => Promise<Backup>;
  readonly onClose: () => void;
}

const formId = 'back-up';
const dayMs = 86_400_000;
const terms = [
  { value: '', label: 'Until it is deleted' },
  { value: '7', label: 'A week' },
  { value: '30', label: '30 days' },
  { value: '365', label: 'A year' },
] as const;

function BackUp({ name, about, path, ask, onClose }: BackUpProps): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  const [destinationId, setDestinationId] = useState<string>();
  const [term, setTerm] = useState('');
  const bodyOf = (): BackUpBody => ({
    ...(destinationId !== undefined && { destination_id: destinationId }),
    ...(term !== '' && { expires_at: new Date(Date.now() + Number(term) * dayMs).toISOString() }),
  });
  const begin = async (): Promise<void> => {
    const isDone = await act.run(() => store.answer('backup', () => ask(bodyOf())));
    if (!isDone) return;
    messages.say(`A backup of ${name} is on its way`);
    onClose();
  };
  return (
    <Dialog
      title={`Back up ${name}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="primary" type="submit" form={formId} busy={act.busy}>
            Back up now
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <p>{about}</p>
      <form
        id={formId}
        class="form"
        aria-label={`Back up ${name}`}
        onSubmit={(event) => {
          event.preventDefault();
          void begin();
        }}
      >
        <Field label="Destination" help="Without one: that of a schedule of it, else the only one." isOptional>
          {(control) => <DestinationChoice control={control} value={destinationId} onChange={setDestinationId} />}
        </Field>
        <Field label="It is kept">
          {(control) => <Select control={control} options={terms} value={term} onChange={setTerm} />}
        </Field>
      </form>
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, path), body: bodyOf() }}
        command={`setpoint backup ${shellQuoted(name)}`}
      />
    </Dialog>
  );
}
