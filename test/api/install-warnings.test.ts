import { describe, expect, it } from 'vitest';
import { installCommand, installWarnings } from '../../api/routes/servers/install-command.ts';
import { startApi } from '../harness/api.ts';

const commandOf = (publicUrl: string, allowPlainHttp = false) =>
  installCommand({ publicUrl, tenant: 'default', token: 'sj_1', isReleased: true, allowPlainHttp });

describe('the creation of a server', () => {
  it.each([
    ['https://setpoint.test', undefined, []],
    ['http://127.0.0.1:7070', undefined, ['SETPOINT_PUBLIC_URL']],
    ['http://127.0.0.1:7070', '192.0.2.7', ['SETPOINT_PUBLIC_URL']],
    ['http://127.0.0.1:7070', '127.0.0.1', []],
    ['http://setpoint.test', '192.0.2.7', ['The machine refuses it']],
  ])('at %s, of a machine at %s, warns: %j', async (publicUrl, ipAddress, expected) => {
    await using world = await startApi({ config: { publicUrl } });
    const owner = await world.owner();
    const { data } = await owner.post('/servers', { name: 'one', ...(ipAddress !== undefined && { ipAddress }) });
    expect(data.install_warnings).toEqual(expected.map((text) => expect.stringContaining(text)));
    const renewed = await owner.post(`/servers/${data.id}/join-token`);
    expect(renewed.data.install_warnings).toEqual(data.install_warnings);
    expect(world.faults).toEqual([]);
  });
});

it('the command allows plain http where the control plane does, and says what that means all the same', () => {
  const publicUrl = 'http://10.0.0.1:7070';
  expect(commandOf(publicUrl)).toMatch(/ --server http:\/\/10\.0\.0\.1:7070\/default$/);
  expect(commandOf(publicUrl, true)).toMatch(/ --server http:\/\/10\.0\.0\.1:7070\/default --allow-plain-http$/);
  expect(installWarnings({ publicUrl, allowPlainHttp: true }, undefined)).toEqual([
    expect.stringMatching(/can read the join token .* declares that this network has no other users$/),
  ]);
  expect(commandOf('https://setpoint.test', true)).not.toContain('--allow-plain-http');
  expect(commandOf('http://127.0.0.1:7070', true)).not.toContain('--allow-plain-http');
});
