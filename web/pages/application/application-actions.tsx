import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { doVerb, labelOf, whyNotVerb } from '../../frame/application-verbs.ts';
import type { SimpleVerb } from '../../frame/application-verbs.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { usePageKeys } from '../../frame/keys.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Application } from '../../model.ts';
import { Actions } from '../../parts/actions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { DeleteApplication } from './delete-application.tsx';
import { RollBack } from './roll-back.tsx';
import { useEarlierSuccess } from './deployments.ts';
import { Scale } from './scale.tsx';

type Asked = 'scale' | 'rollback' | 'delete' | undefined;

/** The verbs of an application. What its state or the reader's role forbids says so. */
export function ApplicationActions({ it }: { it: Application }): VNode {
  const console = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [running, setRunning] = useState<SimpleVerb>();
  const [asked, setAsked] = useState<Asked>();
  const earlier = useEarlierSuccess(it);
  const run = async (verb: SimpleVerb): Promise<void> => {
    setRunning(verb);
    await act.run(() => doVerb(console, verb, it));
    setRunning(undefined);
  };
  const why = (verb: Parameters<typeof whyNotVerb>[0]): string | undefined => whyNotVerb(verb, it, rank);
  usePageKeys({
    d: why('deploy') === undefined ? () => void run('deploy') : undefined,
    r: why('restart') === undefined ? () => void run('restart') : undefined,
  });
  const hints: Partial<Record<SimpleVerb, string>> = { deploy: 'd', restart: 'r' };
  return (
    <div class="application-actions">
      <Actions
        label={`Actions of ${it.name}`}
        actions={[
          ...order(it).map((verb) => ({
            label: labelOf(verb),
            why: why(verb),
            busy: running === verb,
            hint: hints[verb],
            onSelect: () => void run(verb),
          })),
          {
            label: labelOf('rollback'),
            why: why('rollback') ?? (earlier === undefined ? 'No earlier deployment has succeeded' : undefined),
            onSelect: () => setAsked('rollback'),
          },
          { label: labelOf('scale'), why: why('scale'), onSelect: () => setAsked('scale') },
          {
            label: labelOf('terminal'),
            why: why('terminal') ?? (it.ready_replicas === 0 ? 'No instance is ready' : undefined),
            hint: 't',
            onSelect: () => console.router.go(href(parts(it, 'terminal'))),
          },
          { label: labelOf('delete'), why: why('delete'), isDanger: true, onSelect: () => setAsked('delete') },
        ]}
      />
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {asked === 'scale' && <Scale it={it} onClose={() => setAsked(undefined)} />}
      {asked === 'rollback' && earlier !== undefined && (
        <RollBack it={it} to={earlier} onClose={() => setAsked(undefined)} />
      )}
      {asked === 'delete' && <DeleteApplication it={it} onClose={() => setAsked(undefined)} />}
    </div>
  );
}

/** What one does next stands first: a stopped application is started. */
function order({ run }: Application): readonly SimpleVerb[] {
  return run === 'stopped' ? ['start', 'deploy', 'restart', 'stop'] : ['deploy', 'restart', 'stop', 'start'];
}
