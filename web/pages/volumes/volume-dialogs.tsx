import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allApplications, allFunctions, allProjects, allServers, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useList } from '../../frame/context.ts';
import { usePlaceNames } from '../../frame/place-names.ts';
import type { Store } from '../../frame/store.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Checkbox, TextInput } from '../../parts/inputs.tsx';
import type { Refusal } from '../../parts/refusal.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { shownPath } from '../served-fields.ts';

type Volume = ObjectOf<'volume'>;

interface DialogProps {
  readonly volume: Volume;
  readonly onClose: () => void;
}

function faultOf(error: Refusal | undefined, field: string): string | undefined {
  return error?.details?.find((one) => one.field === field)?.message;
}

/** Makes an empty volume on a server. */
export function NewVolume({ onClose }: { readonly onClose: () => void }): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  const projects = byName(useList(allProjects, 'project').objects);
  const servers = byName(useList(allServers, 'server').objects);
  const [name, setName] = useState('');
  const [projectId, setProjectId] = useState(projects.length === 1 ? projects[0]?.id : undefined);
  const [environmentId, setEnvironmentId] = useState<string>();
  const [serverId, setServerId] = useState<string>();
  const body = {
    name: name.trim(),
    project_id: projectId ?? '',
    ...(environmentId !== undefined && { environment_id: environmentId }),
    ...(serverId !== undefined && { server_id: serverId }),
  };
  const why =
    name.trim() === '' ? 'Give it a name first' : projectId === undefined ? 'Choose its project first' : undefined;
  const create = async (): Promise<void> => {
    const isDone = await act.run(() => store.answer('volume', () => call(login, 'POST', '/api/v1/volumes', { body })));
    if (!isDone) return;
    messages.say(`${name.trim()} is being made`);
    onClose();
  };
  const project = projects.find(({ id }) => id === projectId);
  return (
    <Dialog
      title="New volume"
      onClose={onClose}
      dirty={name !== ''}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="primary" type="submit" form="new-volume" busy={act.busy} why={why}>
            Create volume
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <form
        id="new-volume"
        class="form"
        aria-label="New volume"
        onSubmit={(event) => {
          event.preventDefault();
          if (why === undefined) void create();
        }}
      >
        <Field label="Name" error={faultOf(act.error, 'name')} isRequired>
          {(control) => <TextInput control={control} value={name} onInput={setName} placeholder="data" />}
        </Field>
        <Field label="Project" isRequired>
          {(control) => (
            <Combobox
              control={control}
              options={projects.map(({ id, name: own, display_name: title }) => ({ value: id, label: title ?? own }))}
              value={projectId}
              onChange={(next) => {
                setProjectId(next);
                setEnvironmentId(undefined);
              }}
            />
          )}
        </Field>
        {projectId !== undefined && (
          <EnvironmentField key={projectId} projectId={projectId} value={environmentId} onChange={setEnvironmentId} />
        )}
        <Field label="Server" isOptional error={faultOf(act.error, 'server_id')}>
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
      </form>
      <ShowAs
        origin={location.origin}
        request={{ method: 'POST', path: shownPath(login, '/api/v1/volumes'), body }}
        command={`setpoint create volume ${shellQuoted(name === '' ? 'NAME' : name.trim())} --project ${shellQuoted(project?.name ?? 'PROJECT')}`}
      />
    </Dialog>
  );
}

interface EnvironmentFieldProps {
  readonly projectId: string;
  readonly value: string | undefined;
  readonly onChange: (id: string | undefined) => void;
}

function EnvironmentField({ projectId, value, onChange }: EnvironmentFieldProps): VNode {
  const environments = useList(environmentsOf(projectId), 'environment').objects.filter(
    (one) => one.project_id === projectId,
  );
  return (
    <Field label="Environment" isOptional>
      {(control) => (
        <Combobox
          control={control}
          options={byName(environments).map(({ id, name }) => ({ value: id, label: name }))}
          value={value}
          onChange={onChange}
          placeholder="The default one"
        />
      )}
    </Field>
  );
}

/** Mounts a volume in an application or a function of its project and server. */
export function BindVolume({ volume, onClose }: DialogProps): VNode {
  const { login, store, messages } = useConsole();
  const act = useAct();
  const [workloadId, setWorkloadId] = useState<string>();
  const [path, setPath] = useState('/data');
  const [isReadOnly, setReadOnly] = useState(false);
  const isBeside = (one: { project_id: string; server_id: string }): boolean =>
    one.project_id === volume.project_id && one.server_id === volume.server_id;
  const applications = byName(useList(allApplications, 'application').objects.filter(isBeside));
  const functions = byName(useList(allFunctions, 'function').objects.filter(isBeside));
  const isOfFunction = functions.some(({ id }) => id === workloadId);
  const placeOf = usePlaceNames([...applications, ...functions]);
  const bind = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('volume', () =>
        call(login, 'POST', '/api/v1/volumes/{id}/bind', {
          path: { id: volume.id },
          body: {
            workload_type: isOfFunction ? 'function' : 'application',
            workload_id: workloadId ?? '',
            mount_path: path.trim(),
            read_only: isReadOnly,
          },
        }),
      ),
    );
    if (!isDone) return;
    messages.say(`${volume.name} is mounted; instances are replaced one by one`);
    onClose();
  };
  return (
    <Dialog
      title={`Mount ${volume.name}`}
      onClose={onClose}
      dirty={workloadId !== undefined}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="bind-volume"
            busy={act.busy}
            why={workloadId === undefined ? 'Choose what mounts it first' : undefined}
          >
            Mount it
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <form
        id="bind-volume"
        class="form"
        aria-label={`Mount ${volume.name}`}
        onSubmit={(event) => {
          event.preventDefault();
          if (workloadId !== undefined) void bind();
        }}
      >
        <Field
          label="Application or function"
          help="Those of the same project on the same server. Its instances are replaced; those of a function share it."
          isRequired
        >
          {(control) => (
            <Combobox
              control={control}
              options={[
                ...applications.map((it) => ({ value: it.id, label: it.name, note: placeOf(it) })),
                ...functions.map((it) => ({ value: it.id, label: `${it.name} (function)`, note: placeOf(it) })),
              ]}
              value={workloadId}
              onChange={setWorkloadId}
              empty="No application or function of this project is on this server"
            />
          )}
        </Field>
        <Field label="Path in the container" error={faultOf(act.error, 'mount_path')}>
          {(control) => <TextInput control={control} value={path} onInput={setPath} isMono />}
        </Field>
        <Checkbox checked={isReadOnly} onChange={setReadOnly}>
          Read-only
        </Checkbox>
      </form>
    </Dialog>
  );
}

/** What mounts a volume, by its name where it is known. */
export function nameOfWorkload(
  store: Store,
  { workload_type: kind, workload_id: id }: Volume['bindings'][number],
): string {
  return store.get(kind, id)?.name ?? `${id.slice(0, 8)}…`;
}

/** Takes a volume from what is shown as mounting it, and from nothing that mounts it since. */
export function UnbindVolume({ volume, onClose }: DialogProps): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const unbind = async (): Promise<void> => {
    const isDone = await act.run(async () => {
      for (const { workload_id } of volume.bindings)
        await store.answer('volume', () =>
          call(login, 'POST', '/api/v1/volumes/{id}/unbind', { path: { id: volume.id }, body: { workload_id } }),
        );
    });
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Unmount ${volume.name}`}
      verb="Unmount it"
      goes={volume.bindings.map((one) => `${one.mount_path} in ${nameOfWorkload(store, one)}`)}
      stays={['The volume and its data', 'What mounts it, whose instances are replaced']}
      command={`setpoint unbind ${shellQuoted(volume.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void unbind()}
      onClose={onClose}
    />
  );
}

/** Deletes a volume with its data; its name is typed. */
export function DeleteVolume({ volume, onClose }: DialogProps): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('volume', () => call(login, 'DELETE', '/api/v1/volumes/{id}', { path: { id: volume.id } })),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete volume ${volume.name}`}
      verb={`Delete ${volume.name}`}
      goes={[
        `Volume ${volume.name}`,
        `All data in it on ${store.get('server', volume.server_id)?.name ?? 'its server'}`,
      ]}
      stays={['Backups of it in their destinations, as long as they are kept']}
      type={volume.name}
      command={`setpoint delete volume ${shellQuoted(volume.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
