import { createHash } from 'node:crypto';
import { mainService, Route } from '../../agent-protocol/workload.ts';
import { defined } from '../../store/defined.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { enabledIngress } from '../../store/kinds/server-ingress.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { generatedHost } from '../../store/routed-hosts.ts';
import { servingDeployment } from '../../store/serving.ts';
import { planOne } from '../rollout/actions.ts';
import type { Action } from '../rollout/actions.ts';
import type { Assignment } from '../rollout/slots.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import type { App } from './world.ts';

const role = 'routes';

export interface RoutesWorld {
  app: App;
  /** Absent while it is being deleted. */
  server: ReadonlyResource<'server'> | undefined;
  /** The service that requests are for. */
  service: string;
  /** The assignment of its routes. */
  routes: Assignment | undefined;
}

/** Before the first success, the domains lead to what is being deployed: they are ready when it is. */
export function readRoutes(app: App, view: TenantView): RoutesWorld {
  const { deployment_id: target } = app.desired;
  const shown =
    servingDeployment(view, app.meta.id) ?? (target === undefined ? undefined : view.get('deployment', target));
  const [service] = shown?.desired.services ?? [];
  const server = view.get('server', app.desired.server_id);
  return {
    app,
    server: isStaying(server) ? server : undefined,
    service: service?.name ?? mainService,
    routes: view.get('assignment', assignmentId.task(app.meta.id, role)),
  };
}

/** The write that makes the routes of the server those of the application. Pure. */
export function planRoutes(world: RoutesWorld): Action[] {
  const { app, server, routes: present } = world;
  const routes = wantedRoutes(world);
  // stopped before it goes: the server keeps no certificate for the hosts of a deleted application
  const isKept = isStaying(present) && server !== undefined && !isStaying(app);
  if (isKept && present.desired.run === 'running') return [{ do: 'stop', id: present.meta.id }];
  if (isKept && !hasStopped(present)) return [];
  return planOne(app, role, { present, desired: routes.length === 0 ? undefined : onServer(app, routes) });
}

function hasStopped(routes: Assignment): boolean {
  return upToDate(routes)?.phase === 'stopped';
}

/** The routes that the application is to have now. */
function wantedRoutes({ app, server, service }: RoutesWorld): Route[] {
  const isWanted = isStaying(app) && server !== undefined && enabledIngress(server.desired) !== undefined;
  return isWanted ? routesOf(app, server, service) : [];
}

function routesOf({ desired }: App, server: ReadonlyResource<'server'>, main: string): Route[] {
  const generated = generatedHost(desired, server.desired);
  return [
    ...(generated === undefined ? [] : [Route.parse({ host: generated, service: main })]),
    ...desired.domains.map(({ service = main, ...domain }) => Route.parse(defined({ ...domain, service }))),
  ];
}

function onServer({ meta, desired }: App, routes: Route[]): DesiredOf<'assignment'> {
  return {
    server_id: desired.server_id,
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    workload_kind: 'application',
    workload_id: meta.id,
    workload_name: desired.internal_id,
    service: mainService,
    version: meta.id,
    run: 'running',
    spec: { type: 'routes', routes },
    spec_hash: hashOf(routes),
  };
}

function hashOf(routes: readonly Route[]): string {
  return createHash('sha256').update(JSON.stringify(routes)).digest('hex');
}

/** Whether its domains lead to it, and whether their certificates are there; nothing for one without domains. */
export function routeConditions(world: RoutesWorld): ConditionInput[] {
  const { app, server, routes } = world;
  if (!isStaying(app)) return [];
  const isEnabled = server !== undefined && enabledIngress(server.desired) !== undefined;
  if (!isEnabled) {
    if (app.desired.domains.length === 0) return [];
    const message = 'Its server leads no domains to applications: enable its ingress';
    return [{ type: 'RoutesReady', status: 'false', reason: 'NoIngress', message }];
  }
  const wanted = wantedRoutes(world);
  if (routes === undefined || wanted.length === 0) return [];
  // other routes are written in this turn: a report of those before says nothing of them
  const isWritten = routes.desired.server_id === server.meta.id && routes.desired.spec_hash === hashOf(wanted);
  const observed = isWritten ? upToDate(routes) : undefined;
  if (observed?.ready !== true) {
    const message = observed?.error?.message ?? 'Its domains are being set up on its server';
    const reason =
      observed?.error === undefined ? 'Pending' : observed.phase === 'failed' ? 'Refused' : 'IngressUnavailable';
    return [{ type: 'RoutesReady', status: 'false', reason, message }];
  }
  const message = 'Its domains lead to its ready instances';
  return [{ type: 'RoutesReady', status: 'true', reason: 'Loaded', message }, ...certificateCondition(routes)];
}

function certificateCondition(routes: Assignment): ConditionInput[] {
  const spec = routes.desired.spec;
  if (spec.type !== 'routes') return [];
  const hosts = [...new Set(spec.routes.flatMap(({ host, tls }) => (tls === 'off' ? [] : [host])))];
  if (hosts.length === 0) return [];
  const known = new Map(routes.observed?.certificates?.map((one) => [one.host, one]));
  const failed = hosts.flatMap((host) => (known.get(host)?.error === undefined ? [] : [known.get(host)]));
  const type = 'CertificateReady';
  const [first] = failed;
  if (first !== undefined)
    return [
      {
        type,
        status: 'false',
        reason: 'NotIssued',
        message:
          `There is no certificate for ${first.host} (${first.error ?? ''}): its name must lead to the server, and the ` +
          'authority must reach the server at the ports of its ingress. The logs of the server say what the authority answered',
      },
    ];
  const pending = hosts.find((host) => !known.has(host));
  if (pending !== undefined)
    return [{ type, status: 'false', reason: 'Issuing', message: `The certificate for ${pending} is being obtained` }];
  const [soonest] = hosts
    .flatMap((host) => known.get(host) ?? [])
    .toSorted((a, b) => (a.expires_at ?? '').localeCompare(b.expires_at ?? ''));
  if (soonest === undefined) return [];
  const about = `${soonest.host}, by ${soonest.issuer ?? 'unknown'}, ends on ${soonest.expires_at?.slice(0, 10) ?? 'an unknown day'}`;
  const unrenewed = hosts.flatMap((host) => (known.get(host)?.renewal_error === undefined ? [] : [known.get(host)]))[0];
  const failure = unrenewed && `The one for ${unrenewed.host} was not renewed yet: ${unrenewed.renewal_error ?? ''}`;
  if (soonest.ends_soon !== true)
    return [
      {
        type,
        status: 'true',
        reason: 'Issued',
        message: [`The next certificate that ends is for ${about}`, ...(failure === undefined ? [] : [failure])].join(
          '. ',
        ),
      },
    ];
  const message = `The certificate for ${about}, and was not renewed: ${reasonOf(soonest)}`;
  return [{ type, status: 'true', reason: 'ExpiresSoon', message }];
}

function reasonOf({ renewal_error }: { readonly renewal_error?: string | undefined }): string {
  return renewal_error ?? 'the logs of the server say why';
}

/** The certificates that end soon, and why they were not renewed. */
export function endingCertificates({ routes }: RoutesWorld): { host: string; expires_at: string; why: string }[] {
  const ending = routes?.observed?.certificates?.filter(({ ends_soon }) => ends_soon === true) ?? [];
  return ending.flatMap(({ host, expires_at, ...it }) =>
    expires_at === undefined ? [] : [{ host, expires_at, why: reasonOf(it) }],
  );
}
