import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Checkbox, Radios, TextInput } from '../../parts/inputs.tsx';
import { Page } from '../../parts/page.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { useUnsaved } from '../../parts/use-unsaved.ts';
import type { PageProps } from '../page.ts';
import { shownPath } from '../served-fields.ts';
import { ReportView, useReport } from '../template/template-report.tsx';
import { ComposeAccount } from './compose-account.tsx';
import type { Converted } from './compose-account.tsx';

type From = 'text' | 'compose';

const example = `apiVersion: setpoint/v1
kind: Template
metadata:
  name: notes
variables:
  - name: DOMAIN
    type: domain
databases:
  - name: db
    type: postgres
applications:
  - name: web
    image_url: ghcr.io/owner/notes:1.0
    exposed_port: 8080
    domains: ['\${DOMAIN}']
    env:
      DATABASE_URL: \${databases.db.url}
`;

/** Makes a template of a text, or of what a compose file becomes. */
export function NewTemplatePage({ query }: PageProps): VNode {
  const { login, store, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const [from, setFrom] = useState<From>(query.get('from') === 'compose' ? 'compose' : 'text');
  const [content, setContent] = useState('');
  const { report, error } = useReport(content);
  const isDirty = content.trim() !== '';
  useUnsaved(isDirty && !act.busy, 'The template is not created yet. Leave it?');
  const create = async (): Promise<void> => {
    await act.run(async () => {
      const made = await store.answer('template', () =>
        call(login, 'POST', '/api/v1/templates', { body: { content } }),
      );
      router.leave(href(['templates', made.id]));
    });
  };
  const why =
    content.trim() === ''
      ? 'Enter the text first'
      : report?.valid === false
        ? 'Mend what is wrong with the text first'
        : undefined;
  return (
    <Page title="New template" crumbs={[{ label: 'Templates', href: href(['templates']) }]}>
      <Radios
        name="from"
        options={[
          { value: 'text', label: 'From its text' },
          { value: 'compose', label: 'From a compose file' },
        ]}
        value={from}
        onChange={(next) => setFrom(next as From)} // one of the options
      />
      {from === 'compose' && <Conversion onConverted={setContent} />}
      <Form
        label="New template"
        verb="Create template"
        busy={act.busy}
        why={why}
        error={act.error}
        onSubmit={() => {
          void create();
          return true;
        }}
        onCancel={() => router.go(href(['templates']))}
        foot={
          from === 'text' && content === '' ? (
            <Button onClick={() => setContent(example)}>Begin with an example</Button>
          ) : undefined
        }
      >
        <Field
          label="Text of the template"
          help="YAML, at most 256 KiB. It has no secrets: they are variables."
          isRequired
        >
          {(control) => (
            <textarea
              {...control}
              class="input template-text"
              spellcheck={false}
              value={content}
              onInput={(event) => {
                act.clear();
                setContent(event.currentTarget.value);
              }}
            />
          )}
        </Field>
        <ReportView report={report} error={error} />
        <ShowAs
          origin={location.origin}
          request={{ method: 'POST', path: shownPath(login, '/api/v1/templates'), body: { content } }}
          command="setpoint create template -f template.yaml"
        />
      </Form>
    </Page>
  );
}

/** Converts a compose file, and gives an account of each of its keys. */
function Conversion({ onConverted }: { readonly onConverted: (content: string) => void }): VNode {
  const { login } = useConsole();
  const act = useAct();
  const [compose, setCompose] = useState('');
  const [name, setName] = useState('');
  const [recognises, setRecognises] = useState(true);
  const [converted, setConverted] = useState<Converted>();
  const convert = async (): Promise<void> => {
    await act.run(async () => {
      const found = await call(login, 'POST', '/api/v1/templates/convert-compose', {
        body: {
          content: compose,
          recognise_databases: recognises,
          ...(name.trim() !== '' && { name: name.trim() }),
        },
      });
      setConverted(found);
      onConverted(found.content);
    });
  };
  return (
    <>
      <Form
        label="Compose file"
        verb="Convert"
        busy={act.busy}
        why={compose.trim() === '' ? 'Enter the compose file first' : undefined}
        onSubmit={() => {
          void convert();
          return true;
        }}
      >
        {act.error !== undefined && <ErrorBox error={act.error} />}
        <Field label="Name of the template" isOptional>
          {(control) => <TextInput control={control} value={name} onInput={setName} placeholder="notes" />}
        </Field>
        <Field label="Compose file" isRequired>
          {(control) => (
            <textarea
              {...control}
              class="input template-text"
              spellcheck={false}
              value={compose}
              onInput={(event) => setCompose(event.currentTarget.value)}
            />
          )}
        </Field>
        <Checkbox checked={recognises} onChange={setRecognises}>
          Make databases of services that run a known engine
        </Checkbox>
      </Form>
      {converted !== undefined && (
        <Card title="What became of each key">
          <ComposeAccount keys={converted.keys} />
        </Card>
      )}
    </>
  );
}
