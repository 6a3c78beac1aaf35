import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allProjects, allServers, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Card } from '../../parts/card.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { TextInput } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { ShowAs } from '../../parts/show-as.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import { shownPath } from '../served-fields.ts';
import { makesText, Waves } from './template-report.tsx';
import type { Report } from './template-report.tsx';
import { VariableField } from './variable-field.tsx';
import { faultsOf, sentValues } from './variable-values.ts';
import type { VariableValues } from './variable-values.ts';

interface InstantiateFormProps {
  readonly template: ObjectOf<'template'>;
  readonly report: Report;
  /** The project that another page led here with. */
  readonly projectId: string | undefined;
}

/** Makes what a template declares: a place, a name, and a field for each of its variables. */
export function InstantiateForm({ template, report, projectId: given }: InstantiateFormProps): VNode {
  const { login, store, rights, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const projects = byName(useList(allProjects, 'project').objects);
  const servers = byName(useList(allServers, 'server').objects);
  const [chosen, setChosen] = useState(given);
  const [environmentId, setEnvironmentId] = useState<string>();
  const [serverId, setServerId] = useState<string>();
  const [name, setName] = useState('');
  const [values, setValues] = useState<VariableValues>({});
  const [isTried, setTried] = useState(false);
  const projectId = chosen ?? (projects.length === 1 ? projects[0]?.id : undefined);
  const project = projects.find(({ id }) => id === projectId);
  const faults = faultsOf(report.variables, values);
  const variables = sentValues(values);
  const body = {
    project_id: projectId ?? '',
    ...(environmentId !== undefined && { environment_id: environmentId }),
    ...(serverId !== undefined && { server_id: serverId }),
    ...(name.trim() !== '' && { name: name.trim() }),
    variables,
  };
  const isDirty = name.length + Object.keys(variables).length > 0;
  useUnsaved(isDirty && !act.busy, 'Nothing was made yet. Leave it?');
  const make = async (): Promise<void> => {
    await act.run(async () => {
      const made = await store.answer('template_instance', () =>
        call(login, 'POST', '/api/v1/templates/{id}/instantiate', { path: { id: template.id }, body }),
      );
      router.leave(href(['instances', made.id]));
    });
  };
  const why = !report.valid
    ? 'The text of the template has errors: its author has to mend them'
    : projectId === undefined
      ? 'Choose a project first'
      : whyBelow(rights.rankIn(projectId), 'member');
  const servedFault = (field: string): string | undefined =>
    act.error?.details?.find((one) => one.field === field)?.message;
  const faultAt = (variable: string): string | undefined =>
    servedFault(`variables.${variable}`) ?? (isTried ? faults[variable] : undefined);
  const fieldNames = new Set([
    ...report.variables.map((one) => `variables.${one.name}`),
    'name',
    'project_id',
    'environment_id',
    'server_id',
  ]);
  const isElsewhere = act.error?.details?.every(({ field }) => !fieldNames.has(field)) ?? true;
  const secrets = report.variables.filter(({ secret }) => secret).map((one) => one.name);
  return (
    <div class="columns">
      <Form
        label={`Make ${template.display_name ?? template.name}`}
        verb="Create"
        busy={act.busy}
        why={why}
        error={isElsewhere ? act.error : undefined}
        onSubmit={() => {
          setTried(true);
          if (Object.keys(faults).length > 0) return false;
          void make();
          return true;
        }}
      >
        <fieldset class="form-group">
          <legend>Place</legend>
          <Field label="Project" error={servedFault('project_id')} isRequired>
            {(control) => (
              <Combobox
                control={control}
                options={projects.map(({ id, name: own, display_name: title }) => ({ value: id, label: title ?? own }))}
                value={projectId}
                onChange={(next) => {
                  setChosen(next);
                  setEnvironmentId(undefined);
                }}
              />
            )}
          </Field>
          {projectId !== undefined && (
            <EnvironmentField
              key={projectId}
              projectId={projectId}
              value={environmentId}
              error={servedFault('environment_id')}
              onChange={setEnvironmentId}
            />
          )}
          <Field label="Server" error={servedFault('server_id')} isOptional>
            {(control) => (
              <Combobox
                control={control}
                options={servers.map(({ id, name: own }) => ({ value: id, label: own }))}
                value={serverId}
                onChange={setServerId}
                placeholder="The default one of the project"
              />
            )}
          </Field>
          <Field
            label="Name"
            help="What the names of all that is made begin with."
            error={servedFault('name')}
            isOptional
          >
            {(control) => <TextInput control={control} value={name} onInput={setName} placeholder={template.name} />}
          </Field>
        </fieldset>
        {report.variables.length > 0 && (
          <fieldset class="form-group">
            <legend>Variables</legend>
            {report.variables.map((variable) => (
              <VariableField
                key={variable.name}
                variable={variable}
                value={values[variable.name]}
                error={faultAt(variable.name)}
                onChange={(next) => {
                  act.clear();
                  setValues({ ...values, [variable.name]: next });
                }}
              />
            ))}
          </fieldset>
        )}
        <ShowAs
          origin={location.origin}
          request={{
            method: 'POST',
            path: shownPath(login, `/api/v1/templates/${template.id}/instantiate`),
            body,
            secrets,
          }}
          command={commandOf(template.name, project?.name ?? 'PROJECT', name.trim(), variables, secrets)}
        />
      </Form>
      <Card title="What it makes">
        <p>{makesText(report.resources)}</p>
        <Waves of={report.resources} />
        <Notice shape="info">
          <p>A wave begins once all before it are up. Values that are made for you are made once, and kept sealed.</p>
        </Notice>
      </Card>
    </div>
  );
}

function commandOf(
  template: string,
  project: string,
  name: string,
  variables: Readonly<Record<string, string>>,
  secrets: readonly string[],
): string {
  const pairs = Object.entries(variables).map(([key, value]) =>
    secrets.includes(key) ? `"${key}=$${key}"` : shellQuoted(`${key}=${value}`),
  );
  return [
    `setpoint instantiate ${shellQuoted(template)} --project ${shellQuoted(project)}`,
    ...(name === '' ? [] : [`--name ${shellQuoted(name)}`]),
    ...(pairs.length === 0 ? [] : [`--set ${pairs.join(' ')}`]),
  ].join(' ');
}

interface EnvironmentFieldProps {
  readonly projectId: string;
  readonly value: string | undefined;
  readonly error: string | undefined;
  readonly onChange: (id: string | undefined) => void;
}

function EnvironmentField({ projectId, value, error, onChange }: EnvironmentFieldProps): VNode {
  const environments = byName(
    useList(environmentsOf(projectId), 'environment').objects.filter(
      (one) => one.project_id === projectId && one.status === 'active',
    ),
  );
  return (
    <Field label="Environment" error={error} isOptional>
      {(control) => (
        <Combobox
          control={control}
          options={environments.map(({ id, name }) => ({ value: id, label: name }))}
          value={value}
          onChange={onChange}
          placeholder="The default one"
        />
      )}
    </Field>
  );
}
