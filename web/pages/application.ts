import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call, list } from '../api.ts';
import type { Login } from '../api.ts';
import { html } from '../html.ts';
import { useLog } from '../log-stream.ts';
import type { Application, Deployment, Instance, Model, ObjectEvent } from '../model.ts';
import { Ago, Conditions, Events, Log, Status, useTitle } from '../elements.ts';
import { buttonsOf } from '../verbs.ts';

export function ApplicationPage({ login, model, id }: { login: Login; model: Model; id: string }): VNode {
  const it = model.application.get(id);
  useTitle(it?.name ?? 'No such application');
  if (it === undefined)
    return html`<h1>No such application</h1>
      <p class="notice">It was deleted, or it is not yours to see. <a href="#/">All applications</a></p>`;
  return html`<${Found} key=${id} login=${login} model=${model} it=${it} />`;
}

function Found({ login, model, it }: { login: Login; model: Model; it: Application }): VNode {
  const project = model.project.get(it.project_id);
  const environment = model.environment.get(it.environment_id);
  const server = model.server.get(it.server_id);
  const details = useDetails(login, it, model);
  const [shown, setShown] = useState<string>();
  const deployment = details.deployments.find((one) => one.id === (shown ?? it.deployment_id));
  return html`
    <section>
      <p class="quiet small">${project?.name ?? ''} / ${environment?.name ?? ''} on ${server?.name ?? ''}</p>
      <div class="row">
        <h1>${it.name}</h1>
        <${Status} value=${it.status} />
      </div>
      <p class="quiet">
        ${it.source_type === 'image' ? it.image_url : `${it.repository_url ?? ''} ${it.branch ?? ''} ${it.current_commit?.slice(0, 8) ?? ''}`}
        , ${it.ready_replicas} of ${it.replicas} ready${it.exposed_port !== null && `, port ${it.exposed_port}`}
      </p>
      <${Verbs} login=${login} it=${it} />
    </section>
    <div class="columns">
      <section>
        <h2>Conditions</h2>
        <${Conditions} of=${it.conditions} />
      </section>
      <section>
        <h2>Events</h2>
        <${Events} of=${details.events.slice(0, 12)} />
      </section>
    </div>
    <section>
      <h2>Instances</h2>
      <${Instances} of=${details.instances} />
    </section>
    <section>
      <h2>Deployments</h2>
      <${Deployments} of=${details.deployments} shown=${deployment?.id} show=${setShown} />
    </section>
    ${deployment !== undefined && html`<${DeploymentLog} key=${deployment.id} login=${login} of=${deployment} />`}
    <${RuntimeLog} login=${login} it=${it} />
  `;
}

interface Details {
  deployments: Deployment[];
  instances: Instance[];
  events: ObjectEvent[];
}

const retryMs = 2000;

/** Reads what the watch does not contain, again whenever the application or one of its deployments changes. */
function useDetails(login: Login, it: Application, model: Model): Details {
  const [details, setDetails] = useState<Details>({ deployments: [], instances: [], events: [] });
  const own = [...model.deployment.values()].filter((one) => one.application_id === it.id);
  const [attempt, setAttempt] = useState(0);
  const version = JSON.stringify([it, ...own.map((one) => [one.id, one.status])]);
  useEffect(() => {
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    Promise.all([
      list(login, '/api/v1/applications/{appId}/deployments', 20, {
        path: { appId: it.id },
        query: { sort: '-number' },
      }),
      call(login, 'GET', '/api/v1/applications/{id}/instances', { path: { id: it.id } }),
      call(login, 'GET', '/api/v1/applications/{id}/events', { path: { id: it.id } }),
    ]).then(
      ([deployments, instances, events]) => {
        if (isCurrent)
          setDetails({ deployments: deployments.toSorted((a, b) => b.number - a.number), instances, events });
      },
      () => {
        // the header of the page shows whether the server answers
        if (isCurrent) timer = setTimeout(() => setAttempt((count) => count + 1), retryMs);
      },
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [login, version, attempt]);
  const newer = new Map(own.map((one) => [one.id, one]));
  return { ...details, deployments: details.deployments.map((one) => ({ ...one, ...newer.get(one.id) })) };
}

function Verbs({ login, it }: { login: Login; it: Application }): VNode {
  const [error, setError] = useState('');
  const act = async (verb: ReturnType<typeof buttonsOf>[number]['verb']): Promise<void> => {
    setError('');
    try {
      await call(login, 'POST', `/api/v1/applications/{id}/${verb}`, { path: { id: it.id } });
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return html`<div class="row">
      ${buttonsOf(it).map(
        ({ verb, label, reason }) =>
          html`<button key=${verb} disabled=${reason !== undefined} title=${reason ?? ''} onClick=${() => act(verb)}>
            ${label}
          </button>`,
      )}
    </div>
    ${error !== '' && html`<p class="error" role="alert">${error}</p>`}`;
}

function Instances({ of }: { of: readonly Instance[] }): VNode {
  if (of.length === 0) return html`<p class="quiet">None runs.</p>`;
  return html`<table aria-label="Instances">
    <thead>
      <tr>
        <th>Replica</th>
        <th>Status</th>
        <th>Ready</th>
        <th>Restarts</th>
        <th>Started</th>
      </tr>
    </thead>
    <tbody>
      ${of.map(
        (one) =>
          html`<tr key=${one.id}>
            <td>${one.replica}</td>
            <td><${Status} value=${one.status} /></td>
            <td>${one.ready ? 'yes' : 'no'}</td>
            <td>${one.restarts}</td>
            <td>${one.started_at !== null && html`<${Ago} at=${one.started_at} />`}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function Deployments(props: {
  of: readonly Deployment[];
  shown: string | undefined;
  show: (id: string) => void;
}): VNode {
  if (props.of.length === 0) return html`<p class="quiet">It was never deployed.</p>`;
  return html`<table aria-label="Deployments">
    <thead>
      <tr>
        <th>#</th>
        <th>Status</th>
        <th>Commit</th>
        <th>Took</th>
        <th>Why</th>
        <td></td>
      </tr>
    </thead>
    <tbody>
      ${props.of.map(
        (one) =>
          html`<tr key=${one.id}>
            <td class="short">${one.number}${one.is_current && ' · serves'}</td>
            <td><${Status} value=${one.status} /></td>
            <td class="long">
              ${one.commit?.slice(0, 8) ?? ''} <span class="quiet">${one.commit_message ?? ''}</span>
            </td>
            <td class="quiet short">${one.duration_ms === null ? '' : `${(one.duration_ms / 1000).toFixed(1)} s`}</td>
            <td class=${one.error === null ? 'short' : 'long'}>
              ${one.error === null ? one.trigger : html`<span class="error">${one.error.message}</span>`}
            </td>
            <td>
              <button
                aria-label=${`Log of deployment ${one.number}`}
                disabled=${one.id === props.shown}
                onClick=${() => props.show(one.id)}
              >
                Log
              </button>
            </td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function DeploymentLog({ login, of }: { login: Login; of: Deployment }): VNode {
  const lines = useLog(login, `/ws/deployments/${of.id}/logs`);
  const empty = of.finished_at === null ? 'No line yet.' : 'Nothing was built or pulled.';
  return html`<section>
    <h2>Log of deployment ${of.number}</h2>
    <${Log} lines=${lines} label=${`Log of deployment ${of.number}`} empty=${empty} />
  </section>`;
}

function RuntimeLog({ login, it }: { login: Login; it: Application }): VNode {
  const lines = useLog(login, `/ws/applications/${it.id}/logs`);
  return html`<section>
    <h2>Output</h2>
    <${Log} lines=${lines} label="Output" empty="Its instances have written nothing." />
  </section>`;
}
