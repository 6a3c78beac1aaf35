import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { CodeInput, codeKeys } from '../../parts/code-input.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog, Drawer } from '../../parts/dialog.tsx';
import { fieldChanges } from '../../parts/field-changes.ts';
import { Field, FieldGroup } from '../../parts/field.tsx';
import { FileDrop } from '../../parts/file-drop.tsx';
import { Form } from '../../parts/form.tsx';
import { CronInput, Radios, SecretInput, Select, TextInput } from '../../parts/inputs.tsx';
import { SaveBar } from '../../parts/save-bar.tsx';
import { SchemaForm } from '../../parts/schema-form.tsx';
import { ShowAs } from '../../parts/show-as.tsx';
import { Toasts } from '../../parts/toasts.tsx';
import type { Toast } from '../../parts/toasts.tsx';
import { useForm } from '../../parts/use-form.ts';
import { sampleFields } from './samples.ts';

const initial = { name: 'web', kind: 'web', labels: { team: 'shop' }, domains: [{ host: 'shop.example' }] };

export function FormsPart(): VNode {
  const [open, setOpen] = useState<'dialog' | 'drawer' | 'confirm'>();
  const [cron, setCron] = useState('0 3 * * *');
  const [secret, setSecret] = useState<string>();
  const [zone, setZone] = useState('Europe/Berlin');
  const [choice, setChoice] = useState('b');
  const [code, setCode] = useState('if (isCold) {\n  start();\n}');
  const [file, setFile] = useState('Drop it here, too.');
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const form = useForm(sampleFields, initial, () => Promise.reject(new Error('The server does not take a sample')));
  const closed = (): void => setOpen(undefined);
  return (
    <>
      <Card title="A form made from a schema">
        <Form label="Sample" id="sample" error={form.error} onSubmit={form.submit} verb="Send" busy={form.busy}>
          <SchemaForm
            fields={sampleFields}
            layout={{
              groups: [
                { fields: ['name', 'kind', 'password', 'is_public'] },
                { title: 'Limits', fields: ['memory_limit', 'cpu_limit', 'timeout_seconds', 'port'] },
                { title: 'Lists', fields: ['watch_paths', 'labels', 'domains'] },
              ],
              words: {
                memory_limit: { control: 'memory' },
                cpu_limit: { control: 'cpu' },
                timeout_seconds: { control: 'duration', label: 'Timeout' },
                kind: { options: { web: 'Answers requests', worker: 'Works in the background', static: 'Files' } },
              },
            }}
            values={form.values}
            onChange={form.setValues}
            faults={form.faults}
          />
        </Form>
        <ShowAs
          origin="https://setpoint.example"
          request={{ method: 'POST', path: '/default/api/v1/samples', body: form.values, secrets: ['password'] }}
          command="setpoint create sample web"
          manifest={{ kind: 'Sample', metadata: { name: 'web' }, spec: form.values }}
        />
      </Card>
      <Card title="Fields by themselves">
        <Field
          label="With a fault"
          error="The name is taken: try web-2"
          help="Small letters, digits and dashes."
          isRequired
        >
          {(control) => <TextInput control={control} value="web" onInput={() => undefined} />}
        </Field>
        <Field label="A secret that is set">
          {(control) => <SecretInput control={control} value={secret} onInput={setSecret} isSet />}
        </Field>
        <Field label="Zone">
          {(control) => (
            <Select
              control={control}
              options={['Europe/Berlin', 'UTC', 'America/New_York'].map((value) => ({ value, label: value }))}
              value={zone}
              onChange={setZone}
            />
          )}
        </Field>
        <Field label="When">
          {(control) => <CronInput control={control} value={cron} zone={zone} onInput={setCron} />}
        </Field>
        <Field label="Code" help={codeKeys}>
          {(control) => <CodeInput control={control} value={code} lines={4} onInput={setCode} />}
        </Field>
        <FileDrop label="A file" help={file} onFiles={([first]) => setFile(first?.name ?? '')} />
        <FieldGroup label="One of a few" help="Each with what it means.">
          <Radios
            name="few"
            options={[
              { value: 'a', label: 'First', note: 'as it was' },
              { value: 'b', label: 'Second', note: 'as it will be' },
            ]}
            value={choice}
            onChange={setChoice}
          />
        </FieldGroup>
      </Card>
      <Card title="Over the page">
        <div class="row">
          <Button onClick={() => setOpen('dialog')}>Dialog</Button>
          <Button onClick={() => setOpen('drawer')}>Drawer</Button>
          <Button onClick={() => setOpen('confirm')}>Confirm</Button>
          <Button
            onClick={() =>
              setToasts([...toasts, { id: String(toasts.length), shape: 'good', text: `Message ${toasts.length + 1}` }])
            }
          >
            Toast
          </Button>
        </div>
        <Toasts toasts={toasts} onClose={(id) => setToasts(toasts.filter((one) => one.id !== id))} />
        {open === 'dialog' && (
          <Dialog title="A dialog" onClose={closed} dirty foot={<Button onClick={closed}>Done</Button>}>
            <p>Closing it asks first, as something was entered.</p>
          </Dialog>
        )}
        {open === 'drawer' && (
          <Drawer title="A drawer" onClose={closed}>
            <p>At the right side.</p>
          </Drawer>
        )}
        {open === 'confirm' && (
          <Confirm
            title="Delete volume data"
            verb="Delete data"
            goes={['Volume data', 'All data in it on fsn1']}
            stays={['Backups in their destinations']}
            type="data"
            command="setpoint delete volume data"
            onConfirm={closed}
            onClose={closed}
          />
        )}
      </Card>
      <SaveBar
        form="sample"
        changes={fieldChanges(initial, form.values)}
        busy={form.busy}
        effect="nothing until the next deployment"
        onDiscard={() => form.reset()}
      />
    </>
  );
}
