import { expect, test } from 'vitest';
import { functionVersionController } from '../../../controllers/function-version/reconcile.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import { tenant } from '../runtime/rig.ts';
import { openFunctionRig } from './function-rig.ts';
import type { FunctionRig } from './function-rig.ts';

const versions = functionVersionController({
  recipe: ({ code }) => ({ dockerfile: 'FROM scratch\n', files: { handler: code } }),
  buildDeadlineMs: 600_000,
});
const gone = { phase: 'failed' as const, error: { code: 'image_not_found' as const, message: 'The image is gone' } };
const digest = (digit: string): string => `sha256:${digit.repeat(64)}`;

const build = (it: FunctionRig, version: string) =>
  it.rig.mirror
    .tenant(tenant)
    .by('assignment', 'version', version)
    .find(({ desired }) => desired.spec.type === 'build');

/** Reports the end of the build of the version. */
async function end(it: FunctionRig, version: string, more: Partial<ObservedOf<'assignment'>>): Promise<void> {
  const one = (await it.rig.repo.get('assignment', build(it, version)!.meta.id))!;
  const said = kinds.assignment.observed.parse({ phase: 'succeeded', ...more });
  await it.rig.repo.observe(one, { ...said, observedGeneration: one.meta.generation, conditions: [] }, []);
  await it.pass(10_000);
}

async function serving(it: FunctionRig): Promise<string> {
  const first = await it.deploy();
  await end(it, first, { image_digest: digest('1') });
  await it.report({ ready: true });
  expect((await it.ready()).reason).toBe('Serving');
  return first;
}

const served = (it: FunctionRig) => {
  const { version, spec } = it.served()!.desired;
  return [version, spec.type === 'function' ? spec.image_digest : undefined];
};

test('a version whose image was removed from its server is built again, and serves again', async () => {
  await using it = await openFunctionRig({}, [versions]);
  const first = await serving(it);
  await it.report(gone);
  expect((await it.ready()).reason).toBe('Building');
  expect(build(it, first)).toBeDefined();
  await end(it, first, { image_digest: digest('2') });
  expect(served(it)).toEqual([first, digest('2')]);
  await it.report({ ready: true });
  expect((await it.ready()).reason).toBe('Serving');

  // an image that is lost at once again is not built in a circle
  await it.report(gone);
  expect(build(it, first)).toBeUndefined();
  await it.pass(600_000);
  expect(build(it, first)).toBeDefined();
});

test('a version whose image cannot be built again says why, and is not tried again by itself', async () => {
  await using it = await openFunctionRig({}, [versions]);
  const first = await serving(it);
  await it.report(gone);
  await end(it, first, { phase: 'failed', error: { code: 'build_failed', message: 'No base image' } });
  expect((await it.fn()).observed?.phase).toBe('error');
  expect((await it.ready()).message).toBe('The image is gone. Version 1 failed: No base image');
  await it.pass(1_200_000);
  expect(build(it, first)).toBeUndefined();
});

test('an earlier version whose image was removed is built again, while the present one serves', async () => {
  await using it = await openFunctionRig({}, [versions]);
  const first = await serving(it);
  const second = await it.deploy();
  await end(it, second, { image_digest: digest('2') });
  await it.report({ ready: true });
  await it.change({ version_id: first, attempt: 3 });
  expect(served(it)).toEqual([first, digest('1')]);
  await it.report({ ...gone, phase: 'running', ready: true });
  expect(served(it)).toEqual([second, digest('2')]);
  await end(it, first, { image_digest: digest('3') });
  expect(served(it)).toEqual([first, digest('3')]);
  await it.report({ ready: true });
  expect((await it.fn()).observed).toMatchObject({ phase: 'running', active_version_id: first });
});
