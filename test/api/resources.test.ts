import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineEndpoint, defineList, routeName } from '../../api/endpoint/endpoint.ts';
import { endpoints } from '../../api/routes/endpoints.ts';
import { checkResources, missingDeclarations } from '../../api/routes/check-resources.ts';
import type { Declared } from '../../api/routes/check-resources.ts';
import { resourceOf, resources, watchedKinds } from '../../api/resources/resources.ts';
import type { ResourceKind } from '../../api/resources/resources.ts';
import { kindWords, rowOfKind, singular } from '../../cli/objects.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { kinds as consoleKinds } from '../../web/model.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { setStage } from '../harness/stage.ts';
import { exampleOf } from './examples.ts';

const declared: Declared = { kinds, resources, endpoints };
/** A kind that there is not. */
const gadget = { kind: 'gadget', observed: { shape: { phase: z.string() } } };
const gadgets = { ...resources.server, kind: 'gadget' as KindName, answer: z.object({ id: z.string() }) };
const gadgetList = defineList({
  path: '/gadgets' as '/servers',
  summary: '',
  query: z.object({}),
  item: gadgets.answer,
  handle: async () => ({ items: [], meta: { next_cursor: null, limit: 1, total: 0 } }),
});

describe('the kinds', () => {
  it('are shown by the API, or it says why not', () => {
    expect(missingDeclarations(declared).join('\n')).toBe('');
  });

  it.each<[string, Partial<Declared>, string]>([
    [
      'has no resource',
      { kinds: { ...kinds, gadget } },
      'Kind gadget has no resource: declare one by defineResource and add it to api/resources/resources.ts',
    ],
    [
      'has no endpoint',
      { kinds: { ...kinds, gadget }, resources: { ...resources, gadget: { ...gadgets, watch: { never: '' } } } },
      'No endpoint shows the kind gadget: export one from api/routes/ and list its file in api/routes/endpoints.ts',
    ],
    [
      'is never settled',
      {
        kinds: { ...kinds, gadget },
        resources: { ...resources, gadget: { ...gadgets, settle: undefined } },
        endpoints: [...endpoints, gadgetList],
      },
      'Resource gadget has a controller but no isSettled: declare when ?wait= answers',
    ],
    [
      'is watched and in no list',
      {
        kinds: { ...kinds, gadget },
        resources: { ...resources, gadget: gadgets },
        endpoints: [
          ...endpoints,
          defineEndpoint({
            method: 'GET',
            path: '/gadgets/:id' as '/servers/:id',
            summary: '',
            on: ['gadget' as 'server', 'id'],
            handle: async () => undefined,
          }),
        ],
      },
      'Resource gadget is in /ws/watch but in no list',
    ],
    [
      'is found under any project',
      { resources: { ...resources, environment: { ...resources.environment, under: 'id' } } },
      "GET /projects/:projectId/environments/:envId names a project by :projectId, which resource environment does not know: declare under: 'projectId'",
    ],
    [
      'has the resource of another one',
      { resources: { ...resources, project: resources.server } },
      'Resource project declares the kind server: correct api/resources/resources.ts',
    ],
  ])('stop the start with what is missing when one %s', (_name, change, fault) => {
    const faults = missingDeclarations({ ...declared, ...change });
    expect(
      faults.some((one) => one.startsWith(fault)),
      faults.join('\n'),
    ).toBe(true);
  });

  it('that are declared by half are all named at the start', () => {
    const { project, environment, ...others } = resources;
    expect(() => checkResources({ resources: others, endpoints })).toThrow(
      /The API is incomplete:\n- Kind project has no resource[^]*\n- Kind environment has no resource/,
    );
    expect([project.kind, environment.kind]).toEqual(['project', 'environment']);
  });

  it('whose changes are sent are those that the console and the command know', () => {
    const named = kindWords().map(singular);
    for (const [file, known] of [
      ['web/model.ts', consoleKinds],
      ['cli/objects.ts', named],
    ] as const) {
      const unknown = watchedKinds.filter((kind) => !known.some((one) => one === kind));
      expect(unknown, `Add ${unknown.join(', ')} to the kinds of ${file}`).toEqual([]);
      expect(known.length, `${file} has kinds that are not watched`).toBe(watchedKinds.length);
    }
  });
});

describe('what the command knows of', () => {
  it.each(kindWords())('%s is what the API has', (plural) => {
    const kind = singular(plural) as ResourceKind; // the words of the command are those of `/ws/watch`
    const { path, parent, isInEnvironment = false, hasEvents = false, takes, verbs } = rowOfKind(plural);
    const where = `the row ${plural} of cli/objects.ts`;
    const routes = endpoints.map(routeName);
    if (path !== undefined) expect(routes, where).toContain(`GET ${path.slice('/api/v1'.length)}`);
    expect(hasEvents, `hasEvents of ${where}`).toBe(routes.includes(`GET /${plural}/:id/events`));
    expect(takes !== undefined, `takes of ${where}`).toBe(
      endpoints.some(({ method, on }) => method === 'DELETE' && on?.[0] === kind),
    );
    const { answer } = resourceOf(kind);
    const fields = answer instanceof z.ZodObject ? Object.keys(answer.shape) : [];
    // an object that can be of other things as well has none in that field then
    const isOfApplication = answer instanceof z.ZodObject && answer.shape['application_id'] instanceof z.ZodString;
    expect(parent === 'projects', `parent of ${where}`).toBe(fields.includes('project_id') && !isOfApplication);
    expect(isInEnvironment, `isInEnvironment of ${where}`).toBe(
      parent === 'projects' && fields.includes('environment_id'),
    );
    expect(verbs, `verbs of ${where}`).toBe(resourceOf(kind).verbs);
  });
});

describe('an answer', () => {
  let world: ApiWorld;
  beforeAll(async () => {
    world = await startApi();
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    expect(world.faults).toEqual([]);
  });

  /** The kinds whose objects an answer shows something of. */
  function readBy(kind: ResourceKind, view: TenantView): ReadonlySet<string> {
    const read = new Set<string>();
    const recording = new Proxy(view, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          read.add(name === 'agent' ? 'agent' : String(args[0]));
          return Reflect.apply(value, target, args) as unknown;
        };
      },
    });
    const resource = resourceOf(kind);
    for (const one of view.list(kind)) resource.seen(one, recording);
    return read;
  }

  it.each(watchedKinds)('of %s changes with what it shows of other objects', async (kind) => {
    const stage = await setStage(world, 'owner');
    const { tenant } = stage;
    for (const list of endpoints.filter((one) => one.list && one.item === resourceOf(kind).answer))
      await exampleOf(list).before?.(stage);
    expect(world.mirror.tenant(tenant).list(kind), `Make one in \`before\` of its list in examples.ts`).not.toEqual([]);
    const { watch } = resourceOf(kind);
    const known = 'shows' in watch ? Object.keys(watch.shows) : [];
    for (const read of readBy(kind, world.mirror.tenant(tenant)))
      // the feed knows of agents by itself
      if (read !== 'agent') expect(known, `Declare in watch.shows of ${kind} how ${read} changes it`).toContain(read);
  });
});
