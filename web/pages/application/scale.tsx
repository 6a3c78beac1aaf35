import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Application } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Command } from '../../parts/command.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { shellQuoted } from '../../parts/request-text.ts';

/** Asks how many instances an application shall have. */
export function Scale({ it, onClose }: { it: Application; onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const [text, setText] = useState(String(it.replicas));
  const replicas = Number(text);
  const isNumber = text.trim() !== '' && Number.isInteger(replicas) && replicas >= 0;
  const wrong = act.error?.details?.find(({ field }) => field === 'replicas')?.message;
  const scale = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('application', () =>
        call(login, 'POST', '/api/v1/applications/{id}/scale', { path: { id: it.id }, body: { replicas } }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <Dialog
      title={`Scale ${it.name}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            tone="primary"
            type="submit"
            form="scale"
            busy={act.busy}
            why={isNumber ? (replicas === it.replicas ? `It has ${replicas} already` : undefined) : 'Enter a number'}
          >
            Scale
          </Button>
        </>
      }
    >
      {act.error !== undefined && wrong === undefined && <ErrorBox error={act.error} />}
      <form
        id="scale"
        onSubmit={(event) => {
          event.preventDefault();
          if (isNumber) void scale();
        }}
      >
        <Field label="Instances" help={`Now ${it.replicas}, of which ${it.ready_replicas} are ready`} error={wrong}>
          {(field) => (
            <input
              {...field}
              class="input input-narrow"
              type="number"
              min={0}
              value={text}
              autofocus
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          )}
        </Field>
      </form>
      {isNumber && <Command text={`setpoint scale ${shellQuoted(it.name)} ${replicas}`} />}
    </Dialog>
  );
}
