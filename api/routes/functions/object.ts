import { maskEnv, unsealEnv } from '../../workloads/application-env.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import {
  FunctionCreate,
  FunctionDetail,
  FunctionObject,
  functions,
  FunctionUpdate,
  functionVersions,
} from '../../resources/function.ts';
import { addFunction, applyFunctionFields } from '../../workloads/new-function.ts';
import { placeFrom } from '../../workloads/place.ts';
import { requirePort } from '../../workloads/ports.ts';
import { deleteEndpoint, eventsEndpoint, listEndpoint, listOfEndpoint, updateEndpoint } from '../resource-endpoints.ts';

export const listFunctions = listEndpoint(functions, { path: '/functions', summary: 'Functions that one may see' });

export const getFunction = defineEndpoint({
  method: 'GET',
  path: '/functions/:id',
  summary: 'A function with its code and its variables; viewers see the names of these only',
  on: ['function', 'id'],
  givesSecrets: true,
  response: FunctionDetail,
  handle: async (ctx, { it }) => {
    const { code, dependencies, config } = it.desired;
    const masked = ctx.access.grant === 'm';
    return {
      ...functions.answerOf(it, ctx.view),
      code,
      dependencies: dependencies ?? null,
      env: masked ? maskEnv(config.env) : unsealEnv(ctx, it.meta.id, config.env, 'function'),
      masked,
    };
  },
});

export const createFunction = defineEndpoint({
  method: 'POST',
  path: '/functions',
  summary: 'Create a function; it is stopped until it is deployed or started',
  projectFrom: 'body.project_id',
  body: FunctionCreate,
  response: FunctionObject,
  status: 201,
  settle: functions.settle,
  handle: async (ctx, { body }) => {
    const { view } = ctx;
    const place = placeFrom(view, body);
    const unit = ctx.repo.begin();
    const it = addFunction(ctx, unit, place, body);
    return ctx.commit(unit, () => functions.answerOf(it, view));
  },
});

export const updateFunction = updateEndpoint(
  functions,
  {
    path: '/functions/:id',
    summary:
      'Change a function; limits, port, trigger and schedule hold at once, code, dependencies and variables at the next deploy',
  },
  {
    body: FunctionUpdate,
    detail: FunctionDetail,
    change(draft, body, ctx) {
      // the id of the object that the path names
      applyFunctionFields(ctx, draft, body, ctx.params.get('id') ?? '');
    },
    async check(ctx, _, { it, changed }) {
      const { project_id: projectId, server_id: serverId, exposed_port: port } = changed.desired;
      if (port !== it.desired.exposed_port) requirePort(ctx, { id: it.meta.id, projectId, serverId, port });
    },
  },
);

export const deleteFunction = deleteEndpoint(functions, {
  path: '/functions/:id',
  summary: 'Delete a function with its versions and executions',
});

export const listFunctionVersions = listOfEndpoint('function', functionVersions, {
  path: '/functions/:id/versions',
  summary: 'Versions of a function: the last ten, and the one that serves',
});

export const listFunctionEvents = eventsEndpoint(functions, {
  path: '/functions/:id/events',
  summary: 'What happened to a function, newest first',
});
