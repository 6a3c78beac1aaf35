import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allApplications, allFunctions, allServers } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePlaceNames } from '../../frame/place-names.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Checkbox, Radios, TextInput } from '../../parts/inputs.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { shownPath } from '../served-fields.ts';

interface DialogProps {
  readonly backup: ObjectOf<'backup'>;
  readonly onClose: () => void;
}

/** Brings a backup back into the volume that it is of. */
export function RestoreVolume({ backup, onClose }: DialogProps): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const restore = async (): Promise<void> => {
    let id = '';
    const isDone = await act.run(async () => {
      ({ id } = await store.answer('restore', () =>
        call(login, 'POST', '/api/v1/backups/volume/{id}/restore', { path: { id: backup.id } }),
      ));
    });
    if (isDone) router.leave(href(['restores', id]));
  };
  return (
    <Confirm
      title={`Restore volume ${backup.name}`}
      verb={`Restore ${backup.name}`}
      goes={[
        'What is in the volume now, once the archive was read and checked',
        'The instances that mount it, which are replaced then',
      ]}
      stays={[
        'What is in it now, in a volume of its own for a week',
        'The name of the volume, its schedules and its mounts',
      ]}
      type={backup.name}
      command={`setpoint restore ${backup.id}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void restore()}
      onClose={onClose}
    />
  );
}

const formId = 'clone-volume';

/** Restores a backup as a new volume: beside its own, on another server, or mounted in an application or a function. */
export function CloneVolume({ backup, onClose }: DialogProps): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const [name, setName] = useState(`${backup.name}-before`);
  const [place, setPlace] = useState<'server' | 'workload'>('server');
  const [serverId, setServerId] = useState<string>();
  const [workloadId, setWorkloadId] = useState<string>();
  const [path, setPath] = useState('/data');
  const [isReadOnly, setReadOnly] = useState(false);
  const servers = byName(useList(allServers, 'server').objects);
  const isBeside = ({ project_id: id }: { project_id: string }): boolean => id === backup.project_id;
  const applications = byName(useList(allApplications, 'application').objects.filter(isBeside));
  const functions = byName(useList(allFunctions, 'function').objects.filter(isBeside));
  const isOfFunction = functions.some(({ id }) => id === workloadId);
  const placeOf = usePlaceNames([...applications, ...functions]);
  const body = {
    name: name.trim(),
    ...(place === 'workload'
      ? {
          workload_type: isOfFunction ? ('function' as const) : ('application' as const),
          workload_id: workloadId ?? '',
          mount_path: path.trim(),
          read_only: isReadOnly,
        }
      : {
          project_id: backup.project_id,
          environment_id: backup.environment_id,
          ...(serverId !== undefined && { server_id: serverId }),
        }),
  };
  const why =
    name.trim() === ''
      ? 'Give the volume a name first'
      : place === 'workload' && workloadId === undefined
        ? 'Choose what mounts it first'
        : undefined;
  const clone = async (): Promise<void> => {
    let id = '';
    const isDone = await act.run(async () => {
      ({ id } = await store.answer('restore', () =>
        call(login, 'POST', '/api/v1/backups/volume/{id}/clone', { path: { id: backup.id }, body }),
      ));
    });
    if (isDone) router.leave(href(['restores', id]));
  };
  const faultOf = (field: string): string | undefined =>
    act.error?.details?.find((one) => one.field === field)?.message;
  const workload = [...applications, ...functions].find(({ id }) => id === workloadId);
  return (
    <Dialog
      title={`Restore ${backup.name} as a new volume`}
      onClose={onClose}
      dirty={workloadId !== undefined || serverId !== undefined}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="primary" type="submit" form={formId} busy={act.busy} why={why}>
            Make the volume
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <p>The volume that the backup is of is not touched.</p>
      <form
        id={formId}
        class="form"
        aria-label={`Restore ${backup.name} as a new volume`}
        onSubmit={(event) => {
          event.preventDefault();
          if (why === undefined) void clone();
        }}
      >
        <Field label="Name" error={faultOf('name')} isRequired>
          {(control) => <TextInput control={control} value={name} onInput={setName} />}
        </Field>
        <Radios
          name="place"
          options={[
            { value: 'server', label: 'On a server', note: 'mounted by nothing yet' },
            { value: 'workload', label: 'In an application or a function', note: 'on its server, once it has all' },
          ]}
          value={place}
          onChange={(next) => setPlace(next as typeof place)} // one of the options
        />
        {place === 'server' ? (
          <Field label="Server" error={faultOf('server_id')} isOptional>
            {(control) => (
              <Combobox
                control={control}
                options={servers.map(({ id, name: own }) => ({ value: id, label: own }))}
                value={serverId}
                onChange={setServerId}
                placeholder="The default one of the project"
              />
            )}
          </Field>
        ) : (
          <>
            <Field label="Application or function" error={faultOf('workload_id')} isRequired>
              {(control) => (
                <Combobox
                  control={control}
                  options={[
                    ...applications.map((it) => ({ value: it.id, label: it.name, note: placeOf(it) })),
                    ...functions.map((it) => ({ value: it.id, label: `${it.name} (function)`, note: placeOf(it) })),
                  ]}
                  value={workloadId}
                  onChange={setWorkloadId}
                  empty="The project has no application or function"
                />
              )}
            </Field>
            <Field label="Path in the container" error={faultOf('mount_path')}>
              {(control) => <TextInput control={control} value={path} onInput={setPath} isMono />}
            </Field>
            <Checkbox checked={isReadOnly} onChange={setReadOnly}>
              Read-only
            </Checkbox>
          </>
        )}
      </form>
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, `/api/v1/backups/volume/${backup.id}/clone`), body }}
        command={
          place === 'workload'
            ? `setpoint restore ${backup.id} --for ${shellQuoted(workload?.name ?? 'WORKLOAD')}${isOfFunction ? ' --function' : ''} --at ${shellQuoted(path.trim())}`
            : `setpoint restore ${backup.id} --as ${shellQuoted(name.trim())}`
        }
      />
    </Dialog>
  );
}
