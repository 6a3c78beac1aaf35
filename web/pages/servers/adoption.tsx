import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { components } from '../../api-types.d.ts';
import { call } from '../../api.ts';
import { allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Server } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Shape } from '../../parts/shape.tsx';
import { Table } from '../../parts/table.tsx';
import { whyWithoutAgent } from './whole-server.ts';

type Entry = components['schemas']['AdoptionEntry'];
type Plan = Awaited<ReturnType<typeof askFor>>;
type Ask = NonNullable<Parameters<typeof askFor>[2]>;

function askFor(
  login: Parameters<typeof call>[0],
  id: string,
  body: { project_id?: string; take?: string[]; deploy?: boolean },
) {
  return call(login, 'POST', '/api/v1/servers/{id}/adopt', { path: { id }, body });
}

const shapes = { yes: 'good', with_a_stop: 'warn', no: 'bad' } as const;
const words = { yes: 'Can move in', with_a_stop: 'With a stop', no: 'Not as it is' } as const;

/** What runs on a server that no agent made, and what would become of it; chosen entries are taken over. */
export function Adoption({ server }: { readonly server: Server }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [plan, setPlan] = useState<Plan>();
  const [projectId, setProjectId] = useState<string>();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [deploys, setDeploys] = useState(false);
  const projects = byName(useList(allProjects, 'project').objects);
  const ask = async (more: Ask = {}): Promise<void> => {
    await act.run(async () => {
      setPlan(await askFor(login, server.id, { ...(projectId !== undefined && { project_id: projectId }), ...more }));
      setChosen(new Set());
    });
  };
  const why = whyWithoutAgent(server);
  return (
    <div class="stack">
      <Card
        title="What runs here already"
        actions={
          <Button busy={act.busy} why={why} icon="search" onClick={() => void ask()}>
            {plan === undefined ? 'Look' : 'Look again'}
          </Button>
        }
      >
        <p class="quiet">
          Containers and volumes that something else made on this machine can become applications and volumes here.
          Looking changes nothing.
        </p>
        <Field label="Into the project" help="Names that are taken there stand against a move." isOptional>
          {(control) => (
            <Combobox
              control={control}
              options={projects.map(({ id, name, display_name }) => ({ value: id, label: display_name ?? name }))}
              value={projectId}
              onChange={setProjectId}
            />
          )}
        </Field>
        {act.error !== undefined && <ErrorBox error={act.error} />}
      </Card>
      {plan !== undefined && plan.taken.length > 0 && <Taken plan={plan} />}
      {plan !== undefined && (
        <Card
          title="Plan"
          actions={
            <>
              <Checkbox checked={deploys} onChange={setDeploys}>
                Deploy at once
              </Checkbox>
              <Button
                tone="primary"
                busy={act.busy}
                why={
                  projectId === undefined
                    ? 'Choose a project and look again'
                    : chosen.size === 0
                      ? 'Choose what shall move in'
                      : undefined
                }
                onClick={() => void ask({ take: [...chosen], deploy: deploys })}
              >
                Take over {chosen.size === 0 ? '' : chosen.size}
              </Button>
            </>
          }
        >
          {plan.truncated && (
            <Notice shape="warn">
              <p>There is more on this machine than one plan has room for: take over what is here first.</p>
            </Notice>
          )}
          <PlanTable plan={plan.plan} chosen={chosen} onChoose={setChosen} />
        </Card>
      )}
    </div>
  );
}

interface PlanTableProps {
  readonly plan: readonly Entry[];
  readonly chosen: ReadonlySet<string>;
  readonly onChoose: (chosen: ReadonlySet<string>) => void;
}

function PlanTable({ plan, chosen, onChoose }: PlanTableProps): VNode {
  const possible = new Set(plan.filter((entry) => entry.possible !== 'no').map(({ name }) => name));
  return (
    <Table
      label="What could move in"
      rows={plan}
      keyOf={({ name }) => name}
      selected={chosen}
      onSelect={(next) => onChoose(new Set([...next].filter((name) => possible.has(name))))}
      empty={
        <EmptyState title="Nothing to move in">
          All containers and volumes on this machine were made by its agent, or belong to the machine itself.
        </EmptyState>
      }
      columns={[
        { id: 'name', title: 'Name', isPrimary: true, cell: ({ name }) => <span class="strong">{name}</span> },
        { id: 'kind', title: 'Kind', cell: ({ kind }) => kind },
        {
          id: 'from',
          title: 'From',
          cell: ({ from }) => from.volume ?? from.containers.join(', '),
        },
        {
          id: 'possible',
          title: 'Possible',
          isBare: true,
          cell: ({ possible: can }) => (
            <span class="status">
              <Shape of={shapes[can]} />
              {words[can]}
            </span>
          ),
        },
        {
          id: 'why',
          title: 'What it means',
          cell: ({ why, notes, steps }) => (
            <details class="details small">
              <summary>{why[0]?.message ?? notes[0]?.message ?? 'As it is'}</summary>
              <ul>
                {[...why, ...notes].map(({ code, message }) => (
                  <li key={`${code} ${message}`}>{message}</li>
                ))}
                {steps.map((step) => (
                  <li key={step}>{step}</li>
                ))}
              </ul>
            </details>
          ),
        },
      ]}
    />
  );
}

function Taken({ plan }: { readonly plan: Plan }): VNode {
  const href = useHref();
  return (
    <Notice shape="good">
      <p>
        Taken over:{' '}
        {plan.taken.map(({ kind, name, id }, at) => (
          <span key={id}>
            {at > 0 && ', '}
            {kind === 'volume' ? name : <a href={href(['applications', id])}>{name}</a>}
          </span>
        ))}
      </p>
      {plan.remaining.length > 0 && (
        <ol>
          {plan.remaining.map((step) => (
            <li key={step}>{step}</li>
          ))}
        </ol>
      )}
    </Notice>
  );
}
