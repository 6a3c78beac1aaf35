import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AskParams } from '../../../agent-protocol/messages.ts';
import { signedAddresses } from '../../../controllers/gateway/transfers.ts';
import { backupKeys } from '../../../store/backup-keys.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { segmentAt } from '../../../databases/wal.ts';
import { logKey } from '../../../store/archive-keys.ts';
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

async function of<K extends 'backup' | 'restore' | 'wal_archive'>(kind: K, observed: ObservedOf<K>): Promise<void> {
  const found = (await rig.repo.get<'backup' | 'restore' | 'wal_archive'>(kind, id(kind)))!;
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

test('the server of an archive gets no address of a segment that was archived before, but for the last ones', async () => {
  const unit = rig.repo.begin();
  unit.create('wal_archive', id('wal_archive'), desiredState('wal_archive', { destination_id: id('store') }));
  const task = { server_id: id('server'), workload_kind: 'wal_archive' as const, workload_id: id('wal_archive') };
  unit.create('assignment', id('sender'), desiredState('assignment', task));
  await commit(unit);
  await rig.rest();
  const at = (position: number, timeline = 2): string => segmentAt({ timeline, position });
  const send = (...files: string[]) => sign({ about: 'archive.send', assignment: id('sender'), files });
  const archive = rig.mirror.tenant(tenant).get('wal_archive', id('wal_archive'))!;
  const addressesOf = (...files: string[]) => ({
    addresses: files.map((it) => `https://s3.test/${logKey(archive, it)}?write`),
  });
  await expect(send(at(1))).resolves.toEqual(addressesOf(at(1)));
  await of('wal_archive', { phase: 'archiving', gaps: [], last_segment: at(1000) });
  // an agent that was killed sends its last batch again; another timeline begins other names
  const again = [at(937), at(1000), at(1001), at(900, 3), '00000002.history', `${at(900)}.00000028.backup`];
  await expect(send(...again)).resolves.toEqual(addressesOf(...again));
  for (const past of [at(936), at(1), at(900, 1)])
    await expect(send(at(1001), past)).rejects.toMatchObject({
      code: 'already_sent',
      message: `Segment ${past} was archived before, and the log has come to ${at(1000)} since`,
    });
});
