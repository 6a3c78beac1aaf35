import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';

/** Makes a project and goes there. */
export function NewProject({ onClose }: { onClose: () => void }): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const [name, setName] = useState('');
  const [title, setTitle] = useState('');
  const wrong = act.error?.details?.find(({ field }) => field === 'name')?.message;
  const create = async (): Promise<void> => {
    await act.run(async () => {
      const made = await store.answer('project', () =>
        call(login, 'POST', '/api/v1/projects', {
          body: { name: name.trim(), ...(title.trim() !== '' && { display_name: title.trim() }) },
        }),
      );
      router.leave(href(['projects', made.id]));
    });
  };
  return (
    <Dialog
      title="New project"
      onClose={onClose}
      dirty={name !== ''}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="new-project"
            busy={act.busy}
            why={name.trim() === '' ? 'Give it a name first' : undefined}
          >
            Create project
          </Button>
        </>
      }
    >
      {act.error !== undefined && wrong === undefined && <ErrorBox error={act.error} />}
      <form
        id="new-project"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <Field label="Name" help="Small letters, digits and dashes; it begins with a letter" error={wrong}>
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
        <Field label="Shown as" help="How people call it; without it the name is shown">
          {(field) => (
            <input
              {...field}
              class="input"
              value={title}
              autocomplete="off"
              onInput={({ currentTarget }) => setTitle(currentTarget.value)}
            />
          )}
        </Field>
      </form>
    </Dialog>
  );
}
