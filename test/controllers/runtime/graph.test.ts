import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Controller } from '../../../controllers/runtime/controller.ts';
import { checkGraph, describeGraph, writerOf, type AnyController } from '../../../controllers/runtime/graph.ts';
import { isObserved } from '../../../store/definition.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { KindName } from '../../../store/kinds/kinds.ts';
import { allControllers } from '../../harness/all-controllers.ts';

function controller<K extends KindName>(given: Partial<Controller<K>> & { name: string; kind: K }): AnyController {
  return {
    reads: [],
    children: [],
    wakes: [],
    reconcile: () => Promise.reject(new Error('is not run')),
    ...given,
  } as AnyController;
}

const project = controller({ name: 'project', kind: 'project' });

test('the controllers of the program fit together', () => {
  checkGraph(allControllers, Object.keys(kinds) as KindName[]); // the keys are the names
});

test('the writers of what is observed are those of the architecture', async () => {
  const page = await readFile(join(import.meta.dirname, '../../../docs/architecture.md'), 'utf8');
  const table = page.slice(page.indexOf('| Kind | Writes its observed record |')).split('\n\n')[0] ?? '';
  const listed = [...table.matchAll(/^\| (\w+) \| ([\w ]+)/gm)]
    .slice(1)
    .map(([, kind, words = '']) => [kind, words.trim()]);
  const observed = (Object.keys(kinds) as KindName[]).filter(isObserved); // the keys are the names
  const declared = observed.map((kind) => {
    const writer = writerOf(allControllers, kind);
    return [kind, typeof writer === 'object' ? `${writer.name} controller` : writer];
  });
  expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(declared));
});

test('declarations that fit together are accepted', () => {
  expect(() => checkGraph([project], ['project', 'assignment', 'user'])).not.toThrow();
});

test.for([
  {
    fault: 'Two controllers write the observed state of the same kind: project',
    given: [project, controller({ name: 'second', kind: 'project' })],
  },
  {
    fault: 'Two controllers write the observed state of the same kind: assignment',
    given: [project, controller({ name: 'assignment', kind: 'assignment' })],
  },
  {
    fault: 'Two controllers have the same name: project',
    given: [project, controller({ name: 'project', kind: 'operation' })],
  },
  {
    fault:
      'Kind project has a finalizer that no controller of the kind releases, so its deletion would never end: project',
    given: [controller({ name: 'projects', kind: 'project' })],
  },
  {
    fault: 'Controller operation notifies no user although operation can fail: declare `notifies`',
    given: [project, controller({ name: 'operation', kind: 'operation' })],
  },
  {
    fault: 'Nothing writes what is observed of project: list its controller in cli/controllers.ts',
    given: [controller({ name: 'operation', kind: 'operation' })],
  },
  {
    fault: 'Controller project wakes on a kind that it does not read: server',
    given: [controller({ name: 'project', kind: 'project', wakes: [{ kind: 'server', ids: () => [] }] })],
  },
  {
    fault: 'Controller project wakes on its own kind, so its own writes would wake it: project',
    given: [controller({ name: 'project', kind: 'project', wakes: [{ kind: 'project', ids: () => [] }] })],
  },
  {
    fault:
      'Controller operation has a `finalize` that is never called, as the kind operation does not have its finalizer',
    given: [
      project,
      controller({ name: 'operation', kind: 'operation', finalize: () => Promise.reject(new Error('is not run')) }),
    ],
  },
])('a start is refused: $fault', ({ fault, given }) => {
  expect(() => checkGraph(given, ['project', 'assignment'])).toThrow(fault);
});

test('the graph shows kinds, controllers, and what they read, wake on and write', () => {
  const given = controller({
    name: 'project',
    kind: 'project',
    reads: ['server', 'environment'],
    children: ['environment'],
    wakes: [{ kind: 'environment', ids: () => [] }],
  });
  expect(describeGraph([given])).toBe(
    [
      'assignment ← gateway',
      'project ← project; reads environment, server; wakes on environment; writes environment',
    ].join('\n'),
  );
});
