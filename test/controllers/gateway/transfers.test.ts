import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AskParams } from '../../../agent-protocol/messages.ts';
import { signedAddresses } from '../../../controllers/gateway/transfers.ts';
import { backupKeys } from '../../../store/backup-keys.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { MemoryBucket } from '../../harness/memory-bucket.ts';
import { desiredState } from '../../harness/states.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig();
  const unit = rig.repo.begin();
  unit.create('backup_destination', id('store'), desiredState('backup_destination', { name: 'store' }));
  unit.create('backup', id('backup'), desiredState('backup', { destination_id: id('store') }));
  unit.create('restore', id('restore'), desiredState('restore', { backup_id: id('backup') }));
  for (const kind of ['backup', 'restore'] as const)
    unit.create(
      'assignment',
      id(`${kind} task`),
      desiredState('assignment', { server_id: id('server'), workload_kind: kind, workload_id: id(kind) }),
    );
  unit.create('assignment', id('application'), desiredState('assignment', { server_id: id('server') }));
  await commit(unit);
  await of('backup', { phase: 'running', upload_id: 'upload-1' });
  await of('restore', { phase: 'restoring' });
});
afterEach(() => rig[Symbol.asyncDispose]());

async function of<K extends 'backup' | 'restore'>(kind: K, observed: ObservedOf<K>): Promise<void> {
  const found = (await rig.repo.get<'backup' | 'restore'>(kind, id(kind)))!;
  await rig.repo.observe(found as never, { ...observed, observedGeneration: 1, conditions: [] } as never, []); // as found
  await rig.rest();
}

const sign = (params: AskParams, { server = id('server'), isSealed = false } = {}) =>
  signedAddresses(
    {
      view: rig.mirror.tenant(tenant),
      unsealer: {
        unseal: () => {
          if (isSealed) throw new Error('No such key');
          return 'opened';
        },
      },
      signer: new MemoryBucket(),
      server,
    },
    params,
  );
const parts = (of: string): AskParams => ({ about: 'upload.parts', assignment: id(of), parts: [3, 4] });
const download = (of: string): AskParams => ({ about: 'download', assignment: id(of) });
const notAssigned = { code: 'not_assigned' };

test('the server of a task gets addresses of its parts, and of the object that it reads', async () => {
  const { object } = backupKeys(rig.mirror.tenant(tenant).get('backup', id('backup'))!);
  await expect(sign(parts('backup task'))).resolves.toEqual({
    addresses: [3, 4].map((part) => `https://s3.test/${object}?upload=upload-1&part=${part}`),
  });
  await expect(sign(download('restore task'))).resolves.toEqual({ addresses: [`https://s3.test/${object}`] });
});

test('another server gets none, nor is one given for another kind of task', async () => {
  for (const params of [parts('backup task'), download('restore task')])
    await expect(sign(params, { server: id('other') })).rejects.toMatchObject(notAssigned);
  for (const params of [parts('restore task'), download('backup task'), parts('application'), download('application')])
    await expect(sign(params)).rejects.toMatchObject(notAssigned);
  await expect(sign(parts('none'))).rejects.toMatchObject(notAssigned);
});

test('none is given once the task is not wanted any more', async () => {
  for (const task of ['backup task', 'restore task'])
    await rig.repo.change('assignment', id(task), (draft) => void (draft.run = 'stopped'));
  await rig.rest();
  for (const params of [parts('backup task'), download('restore task')])
    await expect(sign(params)).rejects.toMatchObject(notAssigned);
});

test('none is given for a task that is being removed, as one that was cancelled', async () => {
  const unit = rig.repo.begin();
  for (const task of ['backup task', 'restore task']) unit.requestDelete((await rig.repo.get('assignment', id(task)))!);
  await commit(unit);
  await rig.rest();
  for (const params of [parts('backup task'), download('restore task')])
    await expect(sign(params)).rejects.toMatchObject(notAssigned);
});

test('none is given before the upload was begun, and after backup or restore have ended', async () => {
  await of('backup', { phase: 'pending' });
  await expect(sign(parts('backup task'))).rejects.toMatchObject(notAssigned);
  for (const phase of ['completed', 'failed', 'expired'] as const) {
    await of('backup', { phase, upload_id: 'upload-1' });
    await expect(sign(parts('backup task'))).rejects.toMatchObject(notAssigned);
  }
  for (const phase of ['completed', 'failed'] as const) {
    await of('restore', { phase });
    await expect(sign(download('restore task'))).rejects.toMatchObject(notAssigned);
  }
});

test('the address that somebody gave of a dump is opened for the server that fetches it, until that has ended', async () => {
  const address = { $sealed: 'x', for: 'y' };
  const source = { by: 'url' as const, address, shown: 'https://dumps.example.test/a' };
  await rig.repo.change('restore', id('restore'), (draft) => void (draft.source = source));
  await rig.rest();
  await expect(sign(download('restore task'))).resolves.toEqual({ addresses: ['opened'] });
  await expect(sign(download('restore task'), { server: id('other') })).rejects.toMatchObject(notAssigned);
  await expect(sign(download('restore task'), { isSealed: true })).rejects.toMatchObject({
    code: 'secret_unavailable',
  });
  await of('restore', { phase: 'failed' });
  await expect(sign(download('restore task'))).rejects.toMatchObject(notAssigned);
});

test('keys that do not open are another trouble, which may pass', async () => {
  await expect(sign(parts('backup task'), { isSealed: true })).rejects.toMatchObject({ code: 'secret_unavailable' });
});
