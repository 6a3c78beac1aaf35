import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { Project } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { CodeInput, codeKeys } from '../../parts/code-input.tsx';
import { Command } from '../../parts/command.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { FileDrop } from '../../parts/file-drop.tsx';
import { Form } from '../../parts/form.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Checkbox, TextInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { saveAs } from '../../parts/save-as.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import type { PageProps } from '../page.ts';
import { PlanView } from '../plan/plan-view.tsx';
import { countsText } from '../plan/plan-words.ts';
import type { Plan } from '../plan/plan-words.ts';
import { usePlan } from '../plan/use-plan.ts';
import { projectTabs } from '../project/project-tabs.ts';
import { shownPath } from '../served-fields.ts';
import { joinedText, mostBytes } from './declared-files.ts';

/** Brings a project to what a text declares, and tells what is in it as such a text. */
export function ApplyPage({ params }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { store, collections } = useConsole();
  const href = useHref();
  const { reading } = useList(allProjects, 'project');
  const project = store.get('project', projectId);
  if (project === undefined)
    return (
      <Page title="Apply">
        {reading.state === 'reading' && <Skeleton label="Reading the project" />}
        {reading.state === 'failed' && (
          <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(allProjects)} />
        )}
        {reading.state === 'ready' && (
          <Gone what="The project" back={{ href: href(['projects']), label: 'All projects' }} />
        )}
      </Page>
    );
  return (
    <Page
      title={project.display_name ?? project.name}
      crumbs={[{ label: 'Projects', href: href(['projects']) }]}
      tabs={projectTabs(href, project.id)}
      current={href(['projects', project.id, '-', 'apply'])}
    >
      <Applying key={project.id} project={project} />
    </Page>
  );
}

interface Draft {
  readonly content: string;
  readonly manager: string;
  readonly set: string;
  readonly prunes: boolean;
  readonly deploys: boolean;
}

const empty: Draft = { content: '', manager: '', set: '', prunes: false, deploys: true };
/** Many objects are judged one after the other. */
const timeoutMs = 120_000;

function Applying({ project }: { readonly project: Project }): VNode {
  const { login } = useConsole();
  const rank = useRank(project.id);
  const reading = useAct();
  const [draft, setDraft] = useState<Draft>(empty);
  const [done, setDone] = useState<Plan>();
  const [leftOut, setLeftOut] = useState<readonly string[]>([]);
  const body = bodyOf(project, draft);
  const planned = usePlan<Plan>({
    ask: () => call(login, 'POST', '/api/v1/apply', { body: { ...body, dry_run: true }, timeoutMs }),
    planOf: (plan) => plan,
    run: async (force) =>
      setDone(
        await call(login, 'POST', '/api/v1/apply', {
          body: { ...body, ...(force.length > 0 && { force }) },
          timeoutMs,
        }),
      ),
  });
  const isDirty = draft.content !== '' && done === undefined;
  useUnsaved(isDirty, 'The text is not applied yet. Leave it?');
  const set = (change: Partial<Draft>): void => {
    planned.drop();
    reading.clear();
    setDone(undefined);
    setDraft({ ...draft, ...change });
  };
  const below = whyBelow(rank, 'admin');
  const why = below ?? (draft.content.trim() === '' ? 'Enter what is to be there first' : undefined);
  const apply = async (): Promise<void> => {
    const isDone = await planned.run();
    if (isDone) planned.drop();
  };
  return (
    <div class="stack">
      {below !== undefined && (
        <Notice shape="info">
          <p>{below}</p>
        </Notice>
      )}
      <Export
        project={project}
        hasText={draft.content !== ''}
        onTake={(content, left) => {
          set({ content });
          setLeftOut(left);
        }}
      />
      <Card title="Apply">
        <p>
          A text says what is to be there: environments, volumes, databases, applications and instances of templates.
          What that would change is shown before anything is done.
        </p>
        {leftOut.length > 0 && <LeftOut of={leftOut} />}
        <Form
          label="Apply a text"
          isWide
          verb="Show the plan"
          busy={planned.planning.busy}
          why={why}
          error={planned.planning.error ?? reading.error}
          onSubmit={() => {
            void planned.ask();
            return true;
          }}
        >
          <FileDrop
            label="Files"
            help="YAML or JSON; drop them here, too. They replace what is in the field."
            accept=".yaml,.yml,.json"
            isMultiple
            isOptional
            onFiles={(files) =>
              void reading.run(async () => {
                const content = await joinedText(files);
                setLeftOut([]);
                set({ content });
              })
            }
          />
          <Field
            label="What is to be there"
            help={`Objects with apiVersion, kind, metadata and spec; --- stands between two of them. ${codeKeys}`}
            count={{ used: draft.content.length, most: mostBytes }}
            isRequired
          >
            {(control) => (
              <CodeInput control={control} value={draft.content} lines={14} onInput={(content) => set({ content })} />
            )}
          </Field>
          <Options draft={draft} set={set} />
          <ShowAs
            origin={location.origin}
            request={{ method: 'POST', path: shownPath(login, '/api/v1/apply'), body }}
            command={commandOf(project, draft)}
          />
        </Form>
      </Card>
      {planned.plan !== undefined && (
        <Card title="What it would do">
          <PlanView plan={planned.plan} forced={planned.forced} onForce={planned.force} />
          {planned.doing.error !== undefined && <ErrorBox error={planned.doing.error} />}
          <div class="form-foot">
            <Button tone="primary" busy={planned.doing.busy} why={below ?? planned.why} onClick={() => void apply()}>
              Apply
            </Button>
            <Button onClick={planned.drop}>Drop the plan</Button>
          </div>
        </Card>
      )}
      <div role="status">{done !== undefined && <Done plan={done} />}</div>
    </div>
  );
}

function bodyOf({ id }: Project, { content, manager, set, prunes, deploys }: Draft) {
  return {
    project_id: id,
    content,
    ...(manager.trim() !== '' && { manager: manager.trim() }),
    ...(set.trim() !== '' && { set: set.trim() }),
    ...(prunes && { prune: true }),
    ...(!deploys && { deploy: false }),
  };
}

function commandOf({ name }: Project, { manager, set, prunes, deploys }: Draft): string {
  const word = shellQuoted(set.trim());
  return [
    `setpoint apply -f FILE --project ${shellQuoted(name)}`,
    ...(manager.trim() === '' ? [] : [`--manager ${shellQuoted(manager.trim())}`]),
    ...(set.trim() === '' ? [] : [prunes ? `--prune ${word}` : `--set ${word}`]),
    ...(deploys ? [] : ['--no-deploy']),
    '--dry-run',
  ].join(' ');
}

interface OptionsProps {
  readonly draft: Draft;
  readonly set: (change: Partial<Draft>) => void;
}

function Options({ draft, set }: OptionsProps): VNode {
  return (
    <details class="details">
      <summary>More</summary>
      <div class="form-group">
        <Field label="Who declares it" help="What others have set is not overwritten without a decision." isOptional>
          {(control) => (
            <TextInput
              control={control}
              value={draft.manager}
              onInput={(manager) => set({ manager })}
              placeholder="apply"
            />
          )}
        </Field>
        <Field label="Set" help="What these objects belong to, such as shop." isOptional>
          {(control) => (
            <TextInput control={control} value={draft.set} onInput={(word) => set({ set: word })} placeholder="shop" />
          )}
        </Field>
        <Checkbox checked={draft.prunes} onChange={(prunes) => set({ prunes })}>
          Delete what was applied with this set before, and is not declared any more
        </Checkbox>
        <Checkbox checked={draft.deploys} onChange={(deploys) => set({ deploys })}>
          Deploy applications whose source changes
        </Checkbox>
      </div>
    </details>
  );
}

function Done({ plan }: { readonly plan: Plan }): VNode {
  const waiting = plan.steps.filter(({ waits_for: waits }) => waits !== null);
  return (
    <Notice shape={waiting.length === 0 ? 'good' : 'warn'}>
      <p>
        {plan.changes ? `Applied: ${countsText(plan.steps)}.` : 'Nothing was changed: all of it was so already.'}
        {waiting.length > 0 && ' To apply it again does the rest once what is waited for is there:'}
      </p>
      {waiting.length > 0 && (
        <ul>
          {waiting.map(({ key, name, waits_for: waits }) => (
            <li key={key}>
              {name} waits for {waits}
            </li>
          ))}
        </ul>
      )}
    </Notice>
  );
}

function LeftOut({ of }: { readonly of: readonly string[] }): VNode {
  return (
    <Notice shape="info">
      <p>These are not in it, and stay as they are where it is applied:</p>
      <ul>
        {of.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
    </Notice>
  );
}

interface ExportProps {
  readonly project: Project;
  /** Something was entered that the text would replace. */
  readonly hasText: boolean;
  readonly onTake: (content: string, leftOut: readonly string[]) => void;
}

/** What is in the project as a text that applies back to no change. */
function Export({ project, hasText, onTake }: ExportProps): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [leftOut, setLeftOut] = useState<readonly string[]>([]);
  const read = (take: (content: string, left: readonly string[]) => void): Promise<boolean> =>
    act.run(async () => {
      const found = await call(login, 'GET', '/api/v1/projects/{id}/export', { path: { id: project.id } });
      take(found.content, found.left_out);
    });
  return (
    <Card
      title="What is there"
      actions={
        <>
          <Button
            icon="download"
            busy={act.busy}
            onClick={() =>
              void read((content, left) => {
                saveAs(`${project.name}.yaml`, content, 'application/yaml');
                setLeftOut(left);
              })
            }
          >
            Export
          </Button>
          <Button
            busy={act.busy}
            onClick={() => {
              if (hasText && !confirm('It replaces what is in the field. Go on?')) return;
              setLeftOut([]);
              void read(onTake);
            }}
          >
            Take it into the field
          </Button>
        </>
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      <p>What is in the project, as a text: applied back, it changes nothing. Secrets are not in it.</p>
      {leftOut.length > 0 && <LeftOut of={leftOut} />}
      <Command text={`setpoint export ${shellQuoted(project.name)} > project.yaml`} />
    </Card>
  );
}
