import { createHash, timingSafeEqual } from 'node:crypto';
import express from 'express';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { Clock } from '../store/clock.ts';
import type { Mirror } from '../store/mirror.ts';
import type { Store } from '../store/store.ts';
import { createTenant, isOpenTenant, listTenants, requestTenantDeletion, TenantName } from '../store/tenants.ts';
import { badField, badRequest, conflicting, notFound, unauthorized } from './api-error.ts';
import { errorBody } from './respond.ts';
import { toApiError } from './to-api-error.ts';

export interface ClusterPages {
  store: Store;
  mirror: Mirror;
  clock: Clock;
  /** Whoever presents it is the operator of the machine. */
  token: string;
}

const patienceMs = 5000;

const NewTenant = z.strictObject({ name: TenantName });

/** What belongs to no tenant: the tenants themselves. For the operator beside the server, never for users. */
export function createClusterPages({ store, mirror, clock, token }: ClusterPages): RequestHandler {
  const router = express.Router();
  const expected = digest(`Bearer ${token}`);
  router.use('/cluster/v1', (request: Request, _response: Response, next: NextFunction) => {
    if (!timingSafeEqual(digest(request.get('authorization') ?? ''), expected)) throw unauthorized();
    next();
  });
  router.use('/cluster/v1', express.json({ limit: '16kb', inflate: false }));
  router.get('/cluster/v1/tenants', (_request, response) => {
    response.json({ success: true, data: listTenants(mirror) });
  });
  router.post('/cluster/v1/tenants', async (request, response) => {
    const parsed = NewTenant.safeParse(request.body);
    if (!parsed.success) throw badRequest(parsed.error.issues.map((it) => it.message).join('; '));
    const { name } = parsed.data;
    if (!(await createTenant(store, name, clock))) {
      await mirror.reached(await store.revision(), AbortSignal.timeout(patienceMs));
      throw conflicting(
        isOpenTenant(mirror, name)
          ? `Tenant exists already: ${name}`
          : `Tenant is being deleted: its name is free again when it is gone: ${name}`,
      );
    }
    response.status(201).json({ success: true, data: { name } });
  });
  router.delete('/cluster/v1/tenants/:name', async (request: Request<{ name: string }>, response: Response) => {
    const { name } = request.params;
    const [, search = ''] = request.url.split('?');
    if (new URLSearchParams(search).get('confirm') !== name)
      throw badField('confirm', 'required', 'confirm must be the name of the tenant: everything in it is deleted');
    switch (await requestTenantDeletion(store, name, clock)) {
      case 'unknown':
        throw notFound('Tenant');
      case 'last':
        throw conflicting(`Cannot delete the last tenant, as nobody could use the installation: create another first`);
      case 'requested':
        response.json({ success: true, data: { name, state: 'deleting' } });
    }
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

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
