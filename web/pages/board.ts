import type { VNode } from 'preact';
import { html } from '../html.ts';
import { byName } from '../model.ts';
import type { Application, Model, Project, Server } from '../model.ts';
import { Ago, Status, useTitle } from '../elements.ts';

/** The overview: desired state, observed state, and what keeps them apart. */
export function Board({ model }: { model: Model }): VNode {
  const projects = byName(model.project.values());
  useTitle('Applications');
  return html`
    <h1>Applications</h1>
    ${projects.map((project) => html`<${ProjectBoard} key=${project.id} project=${project} model=${model} />`)}
    ${
      projects.length === 0 &&
      html`<p class="notice">
        Nothing is declared yet, or nothing is yours to see. Declare an application in a file and run${' '}
        <code>setpoint apply -f FILE</code>.
      </p>`
    }
  `;
}

function ProjectBoard({ project, model }: { project: Project; model: Model }): VNode {
  const applications = byName([...model.application.values()].filter((one) => one.project_id === project.id));
  return html`<section>
    <h2 class="row">
      ${project.display_name ?? project.name}
      ${project.status !== 'active' && html`<${Status} value=${project.status} />`}
    </h2>
    <table aria-label=${`Applications of ${project.name}`}>
      <thead>
        <tr>
          <th>Application</th>
          <th>Status</th>
          <th>Ready</th>
          <th>Environment</th>
          <th>Server</th>
          <th>Waits for</th>
        </tr>
      </thead>
      <tbody>
        ${applications.map(
          (one) =>
            html`<tr key=${one.id}>
              <td class="long"><a href=${`#/applications/${one.id}`}>${one.name}</a></td>
              <td><${Status} value=${one.status} /></td>
              <td>${one.ready_replicas}/${one.replicas}</td>
              <td>${model.environment.get(one.environment_id)?.name ?? ''}</td>
              <td>${model.server.get(one.server_id)?.name ?? ''}</td>
              <td class="quiet long">${waitsFor(one)}</td>
            </tr>`,
        )}
        ${
          applications.length === 0 &&
          html`<tr>
            <td class="quiet" colspan="6">No application</td>
          </tr>`
        }
      </tbody>
    </table>
  </section>`;
}

/** Why an application has not reached its desired state, in the words of its controller. */
function waitsFor({ conditions, generation, observed_generation }: Application): string {
  const open = conditions.find(
    ({ type, status }) => (type === 'Reconciling' || type === 'Stalled') && status === 'true',
  );
  if (open !== undefined) return open.message === '' ? open.reason : open.message;
  const unready = conditions.find(({ type, status }) => type === 'Ready' && status === 'false');
  if (unready !== undefined && unready.reason !== 'Stopped')
    return unready.message === '' ? unready.reason : unready.message;
  return observed_generation < generation ? 'its controller' : '';
}

export function Servers({ model }: { model: Model }): VNode {
  const servers = byName(model.server.values());
  useTitle('Servers');
  const load = Map.groupBy(model.application.values(), ({ server_id }) => server_id);
  return html`<section>
    <h1>Servers</h1>
    <table aria-label="Servers">
      <thead>
        <tr>
          <th>Server</th>
          <th>Status</th>
          <th>Agent</th>
          <th>Applications</th>
          <th>Engine</th>
          <th>Changed</th>
        </tr>
      </thead>
      <tbody>
        ${servers.map((one) => html`<${ServerRow} key=${one.id} of=${one} load=${load.get(one.id)?.length ?? 0} />`)}
        ${
          servers.length === 0 &&
          html`<tr>
            <td class="quiet" colspan="6">No server has joined: <code>setpoint create server NAME</code> shows how</td>
          </tr>`
        }
      </tbody>
    </table>
  </section>`;
}

/** `load`: how many applications the server has. */
function ServerRow({ of, load }: { of: Server; load: number }): VNode {
  const details = 'runtime_version' in of ? of : undefined;
  return html`<tr>
    <td class="long">${of.name}</td>
    <td><${Status} value=${of.status} /></td>
    <td><${Status} value=${of.agent_status} /> <span class="quiet">${details?.agent_version ?? ''}</span></td>
    <td>${load}</td>
    <td>${details?.runtime_version ?? ''}</td>
    <td>${details !== undefined && html`<${Ago} at=${details.updated_at} />`}</td>
  </tr>`;
}
