import { createHash, timingSafeEqual } from 'node:crypto';
import express from 'express';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { auditWrite, installationLog } from '../../store/audit/record.ts';
import type { AuditedObject } from '../../store/audit/record.ts';
import { verifyChain } from '../../store/audit/verify.ts';
import type { Clock } from '../../time/clock.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Mirror } from '../../store/mirror.ts';
import { objectsInGap } from '../../store/release.ts';
import type { OtherLeader } from '../../store/replicas.ts';
import type { Sealer } from '../../store/seal.ts';
import type { Store, Write } from '../../store/store.ts';
import { createTenant, isOpenTenant, listTenants, requestTenantDeletion, TenantName } from '../../store/tenants.ts';
import { endAllAccess, resetPassword, resetTwoFactor } from '../accounts/recover-account.ts';
import type { SetupToken } from '../auth/setup-token.ts';
import { listSigningKeys, rotateSigningKeys } from '../auth/signing-keys.ts';
import { badField, badRequest, conflicting, notFound, unauthorized } from '../ground/api-error.ts';
import { readLog } from '../audit/read-log.ts';
import { createPasswords } from '../auth/passwords.ts';
import { createFreshness } from '../endpoint/freshness.ts';
import { isOfThisMachine } from './operator-access.ts';
import type { Random } from '../ground/random.ts';
import { toAuditEntry } from '../resources/audit.ts';
import { errorBody } from '../http/respond.ts';
import { requireKnown } from '../request/known-to-leader.ts';
import { afterWriting, toApiError } from '../http/to-api-error.ts';

export interface ClusterPages {
  store: Store;
  mirror: Mirror;
  clock: Clock;
  random: Random;
  sealer: Sealer;
  /** See `ApiDependencies`. */
  otherLeader: () => OtherLeader | undefined;
  /** URL under which users reach this installation. */
  publicUrl: string;
  /** What the first user of a tenant must present. */
  setupToken: SetupToken;
  /** The credential of the operator of the machine. */
  token: string;
  /** Absolute path of the embedded store; `undefined`: it is in etcd, or in memory. */
  storeFile: string | undefined;
  /** Adds a key by which the control plane proves itself to agents. */
  rotateControlKeys: () => Promise<unknown>;
}

const kindNames = Object.keys(kinds) as KindName[]; // the keys of `kinds` are the names
/** Servers that are listed by name, of those that a deletion waits for. */
const maxNamed = 5;
const verifyMs = 60_000;
/** Records in one answer. */
const pageSize = 100;

const NewTenant = z.strictObject({ name: TenantName });

const OfTenant = z.strictObject({ tenant: TenantName });

const Account = z.strictObject({ tenant: TenantName, email: z.string().min(1).max(254) });

/**
 * The operator's endpoints: what belongs to no tenant, its audit log, and what users cannot do themselves. They are
 * never for users: a request from another machine gets 404.
 */
export function createClusterPages(deps: ClusterPages): RequestHandler {
  const { store, mirror, clock, random, token } = deps;
  const router = express.Router();
  const recovery = { ...deps, passwords: createPasswords(), fresh: createFreshness(store, mirror, clock) };
  const recorded = (request: Request, route: string, objects: AuditedObject[]): Write[] => {
    const at = clock.now().toISOString();
    const source = request.socket.remoteAddress ?? '';
    const record = { v: 1 as const, at, route, result: 'ok' as const, tenant: installationLog, source, objects };
    return [auditWrite({ ...record, role: 'operator' }, random.id())];
  };
  const expected = digest(`Bearer ${token}`);
  router.use('/cluster/v1', (request: Request, _response: Response, next: NextFunction) => {
    if (!isOfThisMachine(request)) throw notFound('Page');
    if (!timingSafeEqual(digest(request.get('authorization') ?? ''), expected)) throw unauthorized();
    next();
  });
  router.use('/cluster/v1', express.json({ limit: '16kb', inflate: false }));
  router.get('/cluster/v1/tenants', (_request, response) => {
    const data = listTenants(mirror).map((it) => ({
      ...it,
      waits_for: it.state === 'deleting' ? leftIn(it.name) : [],
    }));
    response.json({ success: true, data });
  });
  /** What is left of a tenant that is being deleted: servers by name, and the number of other objects. */
  function leftIn(tenant: string): string[] {
    const view = mirror.tenant(tenant);
    const servers = view.list('server').map((it) => `server ${it.desired.name}`);
    const others = kindNames.filter((kind) => kind !== 'server');
    const count = others.reduce((sum, kind) => sum + view.list(kind).length, 0);
    const named =
      servers.length > maxNamed ? [...servers.slice(0, maxNamed), `${servers.length - maxNamed} more`] : servers;
    return count === 0 ? named : [...named, `${count} other objects`];
  }
  router.post('/cluster/v1/tenants', async (request, response) => {
    const { name } = parsed(NewTenant, request.body);
    const made = { kind: 'tenant', id: name, name, action: 'create' as const };
    if (!(await createTenant(store, name, clock, recorded(request, 'POST /cluster/v1/tenants', [made])))) {
      await recovery.fresh();
      throw conflicting(
        isOpenTenant(mirror, name)
          ? `Tenant exists already: ${name}`
          : `Tenant is being deleted: its name is free again when it is gone: ${name}`,
      );
    }
    const setup_token = deps.setupToken(name);
    const url = `${deps.publicUrl}/${name}`;
    response
      .status(201)
      .json({ success: true, data: { name, url, ...(setup_token !== undefined && { setup_token }) } });
  });
  router.delete('/cluster/v1/tenants/:name', async (request: Request<{ name: string }>, response: Response) => {
    const { name } = request.params;
    const [, search = ''] = request.url.split('?');
    if (new URLSearchParams(search).get('confirm') !== name)
      throw badField('confirm', 'required', 'confirm must be the name of the tenant: everything in it is deleted');
    const leader = deps.otherLeader();
    if (leader !== undefined) {
      await recovery.fresh();
      requireKnown(leader, objectsInGap(leader.gap, mirror.tenant(name)));
    }
    const going = { kind: 'tenant', id: name, name, action: 'delete' as const };
    const also = recorded(request, 'DELETE /cluster/v1/tenants/:name', [going]);
    switch (await requestTenantDeletion(store, name, clock, also)) {
      case 'unknown':
        throw notFound('Tenant');
      case 'last':
        throw conflicting(
          `Cannot delete the last tenant, as the installation could not be used without one: create another tenant first`,
        );
      case 'requested':
        response.json({ success: true, data: { name, state: 'deleting' } });
    }
  });
  router.get('/cluster/v1/signing-keys', async (_request, response) => {
    response.json({ success: true, data: await listSigningKeys(store) });
  });
  router.post('/cluster/v1/signing-keys/rotate', async (request, response) => {
    await deps.rotateControlKeys();
    await rotateSigningKeys(deps, { writes: recorded(request, 'POST /cluster/v1/signing-keys/rotate', []) });
    response.json({ success: true, data: await afterWriting(() => listSigningKeys(store)) });
  });
  router.post('/cluster/v1/users/reset-password', async (request, response) => {
    const { tenant, email } = parsed(Account, request.body);
    response.json({ success: true, data: { password: await resetPassword(recovery, tenant, email) } });
  });
  router.post('/cluster/v1/users/reset-two-factor', async (request, response) => {
    const { tenant, email } = parsed(Account, request.body);
    response.json({ success: true, data: { was_enabled: await resetTwoFactor(recovery, tenant, email) } });
  });
  router.post('/cluster/v1/users/end-sessions', async (request, response) => {
    const { tenant } = parsed(OfTenant, request.body);
    response.json({ success: true, data: await endAllAccess(recovery, tenant) });
  });
  /** Where the store is, so that a command beside the server copies the one that it really uses. */
  router.get('/cluster/v1/store', (_request, response) => {
    response.json({ success: true, data: { file: deps.storeFile ?? null } });
  });
  router.get('/cluster/v1/audit', async (request, response) => {
    const [, search = ''] = request.url.split('?');
    const cursor = new URLSearchParams(search).get('cursor') ?? undefined;
    const { records, next } = await readLog(store, installationLog, {}, { limit: pageSize, cursor });
    const meta = { next_cursor: next, limit: pageSize, total: null };
    response.json({ success: true, data: records.map(toAuditEntry), meta });
  });
  router.get('/cluster/v1/audit/verify', async (_request, response) => {
    const found = await verifyChain(store, installationLog, AbortSignal.timeout(verifyMs));
    response.json({ success: true, data: found });
  });
  router.use('/cluster/v1', (error: unknown, _request: Request, response: Response, next: NextFunction) => {
    if (response.headersSent) {
      next(error);
      return;
    }
    const known = toApiError(error);
    if (known === undefined) {
      next(error);
      return;
    }
    const body = errorBody(known, String(response.getHeader('x-request-id') ?? ''));
    response.status(known.status).type('json').send(body);
  });
  return router;
}

/** @throws ApiError BAD_REQUEST */
function parsed<S extends z.ZodType>(schema: S, body: unknown): z.output<S> {
  const result = schema.safeParse(body);
  if (!result.success) throw badRequest(result.error.issues.map((it) => it.message).join('; '));
  return result.data;
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
