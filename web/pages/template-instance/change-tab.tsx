import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { templateInstanceVerbs } from '#rules/template-instance.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { allTemplates } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Radios } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { labelOf } from '../../parts/schema-fields.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import { PlanView } from '../plan/plan-view.tsx';
import { usePlan } from '../plan/use-plan.ts';
import { shownPath } from '../served-fields.ts';
import type { Variable } from '../template/template-report.tsx';
import { useTextOf } from '../template/use-text-of.ts';
import { VariableField } from '../template/variable-field.tsx';
import { faultsOf, sentValues } from '../template/variable-values.ts';
import type { VariableValues } from '../template/variable-values.ts';
import { changeable } from './change-fields.ts';
import type { Changeable } from './change-fields.ts';
import type { TabProps, TemplateInstance } from './tab-props.ts';

type Source = 'own' | 'kept' | 'other';

interface Choice {
  readonly templates: readonly ObjectOf<'template'>[];
  /** The template that it was made of, if that is still there. */
  readonly own: ObjectOf<'template'> | undefined;
  readonly source: Source;
  /** The template whose text it gets; absent: it keeps its own, or none is chosen yet. */
  readonly template: ObjectOf<'template'> | undefined;
  readonly onChoose: (source: Source, id?: string) => void;
}

/** Brings an instance to another text or to other values; what that would do is shown first. */
export function ChangeTab({ it }: TabProps): VNode {
  const templates = useList(allTemplates, 'template');
  const own = templates.objects.find(({ id }) => id === it.template_id);
  const [chosen, setChosen] = useState<{ source: Source; id?: string | undefined }>();
  if (templates.reading.state === 'reading' && own === undefined) return <Skeleton label="Reading the templates" />;
  const source = chosen?.source ?? (own === undefined ? 'kept' : 'own');
  const template =
    source === 'own' ? own : source === 'other' ? templates.objects.find(({ id }) => id === chosen?.id) : undefined;
  const choice: Choice = {
    templates: byName(templates.objects),
    own,
    source,
    template,
    onChoose: (next, id) => setChosen({ source: next, id }),
  };
  // an open plan is of this revision
  return template === undefined ? (
    <Editor key={`${it.revision} ${source}`} it={it} choice={choice} declared={undefined} />
  ) : (
    <OfTemplate key={`${it.revision} ${template.id}`} it={it} choice={choice} template={template} />
  );
}

interface OfTemplateProps extends TabProps {
  readonly choice: Choice;
  readonly template: ObjectOf<'template'>;
}

function OfTemplate({ it, choice, template }: OfTemplateProps): VNode {
  const text = useTextOf(template);
  if (text.error !== undefined) return <ErrorBox error={text.error} onRetry={text.again} />;
  if (text.data === undefined) return <Skeleton label="Reading the template" />;
  return <Editor it={it} choice={choice} declared={text.data.report.variables} />;
}

interface EditorProps extends TabProps {
  readonly choice: Choice;
  readonly declared: readonly Variable[] | undefined;
}

function Editor({ it, choice, declared }: EditorProps): VNode {
  const { source, template } = choice;
  const { login, store, router, messages } = useConsole();
  const href = useHref();
  const rank = useRank(it.project_id);
  const [values, setValues] = useState<VariableValues>({});
  const [isTried, setTried] = useState(false);
  const fields = changeable(it.variables, declared);
  const faults = faultsOf(
    fields.map(({ variable }) => variable),
    values,
  );
  const variables = sentValues(values);
  const body = {
    ...(template !== undefined && { template_id: template.id }),
    ...(Object.keys(variables).length > 0 && { variables }),
  };
  const path = { id: it.id };
  const planned = usePlan({
    ask: () => call(login, 'PUT', '/api/v1/template-instances/{id}', { path, body: { ...body, dry_run: true } }),
    planOf: ({ plan }) => plan,
    run: (force, seen) =>
      store.answer('template_instance', () =>
        call(login, 'PUT', '/api/v1/template-instances/{id}', {
          path,
          body: { ...body, ...(force.length > 0 && { force }) },
          // what was planned is done to nothing else
          ...(seen !== undefined && { ifMatch: seen.resource_version }),
        }),
      ),
  });
  const isDirty = Object.keys(variables).length > 0;
  useUnsaved(isDirty && !planned.doing.busy, 'Nothing is changed yet. Leave it?');
  const below = whyNot(templateInstanceVerbs, 'upgrade', it) ?? whyBelow(rank, 'admin');
  const why = below ?? (source === 'other' && template === undefined ? 'Choose a template first' : undefined);
  const refusal = planned.planning.error;
  const servedFault = (name: string): string | undefined =>
    refusal?.details?.find(({ field }) => field === `variables.${name}`)?.message;
  const isElsewhere = refusal?.details?.every(({ field }) => !field.startsWith('variables.')) ?? true;
  const secrets = fields.filter(({ variable }) => variable.secret).map(({ variable }) => variable.name);
  const change = async (): Promise<void> => {
    const isDone = await planned.run();
    if (!isDone) return;
    messages.say(`${it.name} is being changed, wave by wave`);
    router.leave(href(['instances', it.id]));
  };
  return (
    <div class="stack">
      {below !== undefined && (
        <Notice shape="info">
          <p>{below}</p>
        </Notice>
      )}
      <Form
        label={`Change ${it.name}`}
        verb="Show the plan"
        busy={planned.planning.busy}
        why={why}
        error={isElsewhere ? refusal : undefined}
        onSubmit={() => {
          setTried(true);
          if (Object.keys(faults).length > 0) return false;
          void planned.ask();
          return true;
        }}
      >
        <SourceFields it={it} choice={choice} />
        {fields.length > 0 && (
          <fieldset class="form-group">
            <legend>Variables</legend>
            {fields.map((field) => (
              <ChangedVariable
                key={field.variable.name}
                field={field}
                value={values[field.variable.name]}
                error={servedFault(field.variable.name) ?? (isTried ? faults[field.variable.name] : undefined)}
                onChange={(next) => {
                  planned.drop();
                  setValues({ ...values, [field.variable.name]: next });
                }}
              />
            ))}
          </fieldset>
        )}
        <ShowAs
          origin={location.origin}
          request={{ method: 'PUT', path: shownPath(login, `/api/v1/template-instances/${it.id}`), body, secrets }}
          command={commandOf(it, template, variables, secrets)}
        />
      </Form>
      {planned.plan !== undefined && (
        <Card title="What it would do">
          <PlanView plan={planned.plan} forced={planned.forced} onForce={planned.force} />
          {planned.doing.error !== undefined && <ErrorBox error={planned.doing.error} />}
          <div class="form-foot">
            <Button tone="primary" busy={planned.doing.busy} why={why ?? planned.why} onClick={() => void change()}>
              Change {it.name}
            </Button>
            <Button onClick={planned.drop}>Drop the plan</Button>
          </div>
        </Card>
      )}
    </div>
  );
}

function commandOf(
  it: TemplateInstance,
  template: ObjectOf<'template'> | undefined,
  variables: Readonly<Record<string, string>>,
  secrets: readonly string[],
): string {
  const pairs = Object.entries(variables).map(([key, value]) =>
    secrets.includes(key) ? `"${key}=$${key}"` : shellQuoted(`${key}=${value}`),
  );
  return [
    `setpoint upgrade ${shellQuoted(it.name)}`,
    ...(template === undefined
      ? ['--keep-text']
      : template.id === it.template_id
        ? []
        : [`--template ${shellQuoted(template.name)}`]),
    ...(pairs.length === 0 ? [] : [`--set ${pairs.join(' ')}`]),
    '--dry-run',
  ].join(' ');
}

/** Which text it gets. */
function SourceFields({ it, choice }: { readonly it: TemplateInstance; readonly choice: Choice }): VNode {
  const { templates, own, source, template, onChoose } = choice;
  return (
    <fieldset class="form-group">
      <legend>Text</legend>
      <FieldGroup label="It gets">
        <Radios
          name="source"
          options={[
            ...(own === undefined
              ? []
              : [{ value: 'own', label: `The present text of ${own.name}`, note: 'as its author has it now' }]),
            { value: 'kept', label: 'The text that it has', note: 'only values change, or what was changed by hand' },
            { value: 'other', label: 'The text of another template' },
          ]}
          value={source}
          onChange={(next) => onChoose(next as Source)} // one of the options
        />
      </FieldGroup>
      {source === 'other' && (
        <Field label="Template" isRequired>
          {(control) => (
            <Combobox
              control={control}
              options={templates
                .filter(({ id }) => id !== it.template_id)
                .map(({ id, name, display_name: title }) => ({ value: id, label: title ?? name }))}
              value={template?.id}
              onChange={(next) => onChoose('other', next)}
              placeholder="Choose one"
            />
          )}
        </Field>
      )}
    </fieldset>
  );
}

interface ChangedVariableProps {
  readonly field: Changeable;
  readonly value: string | undefined;
  readonly error: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}

/** A variable that stays as it is until somebody wants another value, which no answer shows. */
function ChangedVariable({ field, value, error, onChange }: ChangedVariableProps): VNode {
  const { variable, isKept } = field;
  const [isOpen, setOpen] = useState(!isKept);
  const label = variable.display_name ?? labelOf(variable.name);
  if (!isOpen)
    return (
      <div class="row-apart">
        <span>
          <span class="strong">{label}</span> <span class="quiet">stays as it is</span>
        </span>
        <Button isSmall onClick={() => setOpen(true)}>
          Change {label}
        </Button>
      </div>
    );
  return (
    <div class="stack-tight">
      <VariableField variable={variable} value={value} error={error} onChange={onChange} />
      {isKept && (
        <span>
          <Button
            isSmall
            onClick={() => {
              onChange(undefined);
              setOpen(false);
            }}
          >
            Leave {label} as it is
          </Button>
        </span>
      )}
    </div>
  );
}
