import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { templateInstanceVerbs } from '#rules/template-instance.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { FieldDiff } from '../../parts/field-diff.tsx';
import { FieldGroup } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Radios } from '../../parts/inputs.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { shownPath } from '../served-fields.ts';
import { ChildLink } from './child-link.tsx';
import { driftChanges } from './drift-changes.ts';
import type { TabProps, TemplateInstance } from './tab-props.ts';

type Policy = TemplateInstance['drift'];

const policies: readonly { value: Policy; label: string; note: string }[] = [
  { value: 'warn', label: 'Show it', note: 'nothing is written' },
  {
    value: 'correct',
    label: 'Write it back',
    note: 'as the text declares it, at once, with a deployment where it needs one',
  },
  { value: 'ignore', label: 'Do not look', note: 'nothing is shown and nothing is written' },
];

/** What somebody changed by hand of what the text declares, field by field, and what becomes of it. */
export function DriftTab({ it }: TabProps): VNode {
  const href = useHref();
  const byChild = [...Map.groupBy(it.drifted, ({ id }) => id)];
  return (
    <div class="stack">
      <Card
        title="What differs from its text"
        actions={
          it.drifted.length > 0 && <LinkButton href={href(['instances', it.id, 'change'])}>Plan a change</LinkButton>
        }
      >
        {it.drift === 'ignore' ? (
          <p class="quiet">It is not looked at: choose below to have it shown.</p>
        ) : byChild.length === 0 ? (
          <p class="quiet">Nothing: every field that its text declares has the declared value.</p>
        ) : (
          byChild.map(([id, fields]) => {
            const child = it.children.find((one) => one.id === id);
            return (
              <section key={id} class="stack-tight" aria-label={child?.name ?? id}>
                <h3>
                  {child === undefined ? (
                    fields[0]?.key
                  ) : (
                    <>
                      {child.kind} <ChildLink it={child} />
                    </>
                  )}
                </h3>
                <FieldDiff changes={driftChanges(fields)} labels={{ before: 'Declared', after: 'Is' }} areBoth />
              </section>
            );
          })
        )}
      </Card>
      <Card title="What becomes of it">
        <PolicyForm key={it.drift} it={it} />
      </Card>
    </div>
  );
}

function PolicyForm({ it }: { readonly it: TemplateInstance }): VNode {
  const { login, store, messages } = useConsole();
  const rank = useRank(it.project_id);
  const act = useAct();
  const [policy, setPolicy] = useState<Policy>(it.drift);
  const why =
    whyNot(templateInstanceVerbs, 'upgrade', it) ??
    whyBelow(rank, 'admin') ??
    (policy === it.drift ? 'Nothing has changed' : undefined);
  const body = { drift: policy };
  const save = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('template_instance', () =>
        call(login, 'PUT', '/api/v1/template-instances/{id}', { path: { id: it.id }, body }),
      ),
    );
    if (isDone) messages.say(`${it.name} is saved`);
  };
  return (
    <Form
      label="What becomes of changes by hand"
      verb="Save"
      busy={act.busy}
      why={why}
      error={act.error}
      onSubmit={() => {
        void save();
        return true;
      }}
    >
      <FieldGroup label="A field that its text declares, and that somebody changes by hand">
        <Radios
          name="drift"
          options={policies}
          value={policy}
          onChange={(next) => setPolicy(policies.find(({ value }) => value === next)?.value ?? 'warn')}
        />
      </FieldGroup>
      <ShowAs
        origin={location.origin}
        request={{ method: 'PUT', path: shownPath(login, `/api/v1/template-instances/${it.id}`), body }}
        command={`setpoint upgrade ${shellQuoted(it.name)} --keep-text --drift ${policy}`}
      />
    </Form>
  );
}
