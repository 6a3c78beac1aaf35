import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api.ts';
import { allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { Server } from '../../model.ts';
import { byName } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Field } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { emptyDraft, numberOf, suggestedName } from '../new-application/draft.ts';
import { notDeployed } from '../new-application/not-deployed.ts';

/** Makes a project and an application from an image in it, and deploys that. */
export function FirstApplication({ server }: { server: Server }): VNode {
  const { login, store, router, messages } = useConsole();
  const href = useHref();
  const act = useAct();
  const [project] = byName(useList(allProjects, 'project').objects);
  const [projectName, setProjectName] = useState('demo');
  const [image, setImage] = useState('');
  const [port, setPort] = useState('');
  const name = suggestedName({ ...emptyDraft, source: 'image', image });
  const create = async (): Promise<void> => {
    await act.run(async () => {
      const place =
        project ??
        (await store.answer('project', () =>
          call(login, 'POST', '/api/v1/projects', { body: { name: projectName.trim() } }),
        ));
      const { id, name: called } = await store.answer('application', () =>
        call(login, 'POST', '/api/v1/applications', {
          body: {
            project_id: place.id,
            server_id: server.id,
            source_type: 'image',
            name: name === '' ? 'app' : name,
            image_url: image.trim(),
            ...(port.trim() !== '' && { exposed_port: numberOf(port) }),
          },
        }),
      );
      await store
        .answer('deployment', () => call(login, 'POST', '/api/v1/applications/{id}/deploy', { path: { id } }))
        .catch((failure: unknown) => {
          messages.say(notDeployed(called, failure), 'bad');
          router.go(href(['applications', id]));
        });
    });
  };
  const control = (value: string, set: (text: string) => void, placeholder: string) => (field: object) => (
    <input
      {...field}
      class="input"
      value={value}
      placeholder={placeholder}
      autocomplete="off"
      spellcheck={false}
      onInput={({ currentTarget }: { currentTarget: HTMLInputElement }) => set(currentTarget.value)}
    />
  );
  return (
    <Card
      title="A first application"
      actions={
        project !== undefined && (
          <LinkButton href={href(['projects', project.id, '-', 'new'], { source: 'git' })}>
            From git or compose
          </LinkButton>
        )
      }
    >
      <p class="quiet">
        The server {server.name} is connected. Any image with a port serves to begin with; a git repository or a compose
        file comes later in the same way.
      </p>
      <Form
        label="A first application"
        verb="Create and deploy"
        busy={act.busy}
        error={act.error}
        why={image.trim() === '' ? 'Enter an image first' : undefined}
        onSubmit={() => {
          void create();
          return true;
        }}
      >
        {project === undefined && <Field label="Project">{control(projectName, setProjectName, 'demo')}</Field>}
        <Field label="Image" isRequired>
          {control(image, setImage, 'nginx:1.29')}
        </Field>
        <Field label="Port" isOptional help="The port in the container that requests are for">
          {control(port, setPort, '80')}
        </Field>
      </Form>
    </Card>
  );
}
