import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { templateInstanceVerbs } from '#rules/template-instance.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { useConsole } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Command } from '../../parts/command.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { PlanView } from '../plan/plan-view.tsx';
import { usePlan } from '../plan/use-plan.ts';
import type { TabProps, TemplateInstance } from './tab-props.ts';

type Revision = TemplateInstance['revisions'][number];

/** The former texts and values of an instance; it can return to each of them. */
export function RevisionsTab({ it }: TabProps): VNode {
  const rank = useRank(it.project_id);
  const [target, setTarget] = useState<Revision>();
  const why = whyNot(templateInstanceVerbs, 'rollback', it) ?? whyBelow(rank, 'admin');
  return (
    <Card title="Former revisions">
      <p>
        It has revision <span class="strong">{it.revision}</span>, of {it.template_name} {it.template_version ?? ''}.
      </p>
      {it.revisions.length === 0 ? (
        <EmptyState title="No former revision" command={`setpoint upgrade ${shellQuoted(it.name)}`}>
          A change of its text or of its values makes a revision. The ones before are kept, so that it can return to
          them.
        </EmptyState>
      ) : (
        <Table
          label="Former revisions"
          rows={it.revisions}
          keyOf={({ revision }) => String(revision)}
          columns={[
            { id: 'revision', title: 'Revision', isPrimary: true, cell: ({ revision }) => `#${revision}` },
            { id: 'template', title: 'Template', cell: ({ template_name: name }) => name },
            { id: 'version', title: 'Version of the text', cell: ({ template_version: version }) => version ?? '' },
            { id: 'until', title: 'Until', cell: ({ until }) => <Time at={until} /> },
            {
              id: 'back',
              title: 'Return',
              isNarrow: true,
              cell: (one) => (
                <Button isSmall why={why} onClick={() => setTarget(one)}>
                  Return to #{one.revision}
                </Button>
              ),
            },
          ]}
        />
      )}
      {target !== undefined && <Return it={it} to={target} onClose={() => setTarget(undefined)} />}
    </Card>
  );
}

interface ReturnProps {
  readonly it: TemplateInstance;
  readonly to: Revision;
  readonly onClose: () => void;
}

/** Shows what a return to a former revision would do, and does it. */
function Return({ it, to: { revision }, onClose }: ReturnProps): VNode {
  const { login, store, messages } = useConsole();
  const path = { id: it.id };
  const planned = usePlan({
    ask: () =>
      call(login, 'POST', '/api/v1/template-instances/{id}/rollback', { path, body: { revision, dry_run: true } }),
    planOf: ({ plan }) => plan,
    run: (force) =>
      store.answer('template_instance', () =>
        call(login, 'POST', '/api/v1/template-instances/{id}/rollback', {
          path,
          body: { revision, ...(force.length > 0 && { force }) },
        }),
      ),
  });
  useEffect(() => void planned.ask(), []);
  const back = async (): Promise<void> => {
    const isDone = await planned.run();
    if (!isDone) return;
    messages.say(`${it.name} is being brought back, wave by wave`);
    onClose();
  };
  return (
    <Dialog
      title={`Return ${it.name} to revision ${revision}`}
      isWide
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button tone="primary" busy={planned.doing.busy} why={planned.why} onClick={() => void back()}>
            Return to #{revision}
          </Button>
        </>
      }
    >
      {planned.planning.error !== undefined && (
        <ErrorBox error={planned.planning.error} onRetry={() => void planned.ask()} />
      )}
      {planned.doing.error !== undefined && <ErrorBox error={planned.doing.error} />}
      {planned.plan === undefined && planned.planning.error === undefined && <Skeleton label="Planning" />}
      {planned.plan !== undefined && <PlanView plan={planned.plan} forced={planned.forced} onForce={planned.force} />}
      <p>It is a change as any other: it goes through the waves, and makes a revision of its own.</p>
      <Command text={`setpoint rollback ${shellQuoted(it.name)} --instance --to ${revision}`} />
    </Dialog>
  );
}
