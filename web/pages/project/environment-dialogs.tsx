import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Act } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { Environment, Project } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { refusalOf } from '../../parts/refusal.ts';
import { shellQuoted } from '../../parts/request-text.ts';
import { useContents } from './contents.ts';

interface NameDialogProps {
  readonly title: string;
  readonly verb: string;
  readonly act: Act;
  readonly initial?: string;
  readonly children?: ComponentChildren;
  readonly onName: (name: string) => void;
  readonly onClose: () => void;
}

/** A dialog that asks for a name. */
function NameDialog({ title, verb, act, initial = '', children, onName, onClose }: NameDialogProps): VNode {
  const [name, setName] = useState(initial);
  const wrong = act.error?.details?.find(({ field }) => field === 'name')?.message;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      dirty={name !== initial}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="name-dialog"
            busy={act.busy}
            why={name.trim() === '' ? 'Give it a name first' : undefined}
          >
            {verb}
          </Button>
        </>
      }
    >
      {act.error !== undefined && wrong === undefined && <ErrorBox error={act.error} />}
      {children}
      <form
        id="name-dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() !== '') onName(name.trim());
        }}
      >
        <Field label="Name" help="Small letters, digits and dashes" error={wrong}>
          {(field) => (
            <input
              {...field}
              class="input"
              value={name}
              autofocus
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => setName(currentTarget.value)}
            />
          )}
        </Field>
      </form>
    </Dialog>
  );
}

export function NewEnvironment({ project, onClose }: { project: Project; onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const create = async (name: string): Promise<void> => {
    const path = { projectId: project.id };
    const isDone = await act.run(() =>
      store.answer('environment', () =>
        call(login, 'POST', '/api/v1/projects/{projectId}/environments', { path, body: { name } }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <NameDialog
      title="New environment"
      verb="Create environment"
      act={act}
      onName={(name) => void create(name)}
      onClose={onClose}
    >
      <p class="quiet">Applications of one environment reach each other by name, and those of another one do not.</p>
    </NameDialog>
  );
}

export function CloneEnvironment({ environment, onClose }: { environment: Environment; onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const [withData, setWithData] = useState(false);
  const clone = async (name: string): Promise<void> => {
    const path = { projectId: environment.project_id, envId: environment.id };
    const isDone = await act.run(() =>
      store.answer('environment', () =>
        call(login, 'POST', '/api/v1/projects/{projectId}/environments/{envId}/clone', {
          path,
          body: { name, include_data: withData },
        }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <NameDialog
      title={`Clone ${environment.name}`}
      verb="Clone environment"
      act={act}
      initial={`${environment.name}-copy`}
      onName={(name) => void clone(name)}
      onClose={onClose}
    >
      <p class="quiet">
        The new environment gets the applications with their configuration and variables. Its databases and volumes
        begin empty, unless it gets their data.
      </p>
      <Checkbox checked={withData} onChange={setWithData}>
        With the data of databases and volumes, by way of the backup destination
      </Checkbox>
    </NameDialog>
  );
}

interface DeleteProps {
  readonly environment: Environment;
  readonly onClose: () => void;
}

export function DeleteEnvironment({ environment, onClose }: DeleteProps): VNode {
  const { login, store } = useConsole();
  const rank = useRank(environment.project_id);
  const act = useAct();
  const contents = useContents(environment.project_id, environment.id);
  const isEmpty = contents.goes.length === 0;
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('environment', () =>
        call(login, 'DELETE', '/api/v1/projects/{projectId}/environments/{envId}', {
          path: { projectId: environment.project_id, envId: environment.id },
          ...(!isEmpty && { query: { force: 'true' as const } }),
        }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete ${environment.name}`}
      verb="Delete environment"
      goes={[`The environment ${environment.name}`, ...contents.goes]}
      stays={['The other environments of the project', ...(isEmpty ? [] : ['Backups at their destinations'])]}
      type={isEmpty ? undefined : environment.name}
      why={contents.why ?? (isEmpty ? undefined : whyBelow(rank, 'owner'))}
      command={`setpoint delete environment ${shellQuoted(environment.name)}${isEmpty ? '' : ' --force'}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}

/** Makes an environment the one for what is created without one. */
export function useMakeDefault(environment: Environment): () => void {
  const { login, store, messages } = useConsole();
  return () => {
    const path = { projectId: environment.project_id, envId: environment.id };
    store
      .answer('environment', () =>
        call(login, 'POST', '/api/v1/projects/{projectId}/environments/{envId}/set-default', { path }),
      )
      .then(
        () => messages.say(`${environment.name} is the default environment`),
        (failure: unknown) => messages.say(refusalOf(failure).message, 'bad'),
      );
  };
}
