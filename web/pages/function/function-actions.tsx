import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useConsole, useHref } from '../../frame/context.ts';
import { doFunctionVerb, labelOfFunctionVerb, whyNotFunctionVerb } from '../../frame/function-verbs.ts';
import type { SimpleFunctionVerb } from '../../frame/function-verbs.ts';
import { useFunctionParts } from '../../frame/object-links.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Actions } from '../../parts/actions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { DeleteFunction } from './delete-function.tsx';
import type { Fn } from './tab-props.ts';

/** The verbs of a function. What its state or the reader's role forbids says so. */
export function FunctionActions({ it }: { readonly it: Fn }): VNode {
  const console = useConsole();
  const href = useHref();
  const parts = useFunctionParts();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [running, setRunning] = useState<SimpleFunctionVerb>();
  const [asks, setAsks] = useState(false);
  const run = async (verb: SimpleFunctionVerb): Promise<void> => {
    setRunning(verb);
    await act.run(() => doFunctionVerb(console, verb, it));
    setRunning(undefined);
  };
  const simple = (verb: SimpleFunctionVerb) => ({
    label: labelOfFunctionVerb(verb),
    why: whyNotFunctionVerb(verb, it, rank),
    busy: running === verb,
    onSelect: () => void run(verb),
  });
  const isRested = it.run === 'stopped' && it.active_version_id !== null;
  return (
    <div class="application-actions">
      <Actions
        label={`Actions of ${it.name}`}
        actions={[
          // what one does next stands first: a stopped function that was built is started
          ...(isRested
            ? [simple('start'), simple('deploy'), simple('stop')]
            : [simple('deploy'), simple('stop'), simple('start')]),
          {
            label: labelOfFunctionVerb('invoke'),
            why: whyNotFunctionVerb('invoke', it, rank),
            onSelect: () => console.router.go(href(parts(it, 'try'))),
          },
          {
            label: labelOfFunctionVerb('delete'),
            why: whyNotFunctionVerb('delete', it, rank),
            isDanger: true,
            onSelect: () => setAsks(true),
          },
        ]}
      />
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {asks && <DeleteFunction it={it} onClose={() => setAsks(false)} />}
    </div>
  );
}
