import { expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';

it('a wildcard domain of the installation gives each server with an ingress one of its own', async () => {
  await using other = await startApi({ config: { wildcardDomain: 'apps.example.test' } });
  const admin = await other.owner();
  const { server } = await other.place(admin);
  const wildcardOf = async (ingress: object) =>
    (await admin.put(`/servers/${server}`, { ingress })).data.ingress.wildcard_domain;
  const given = await wildcardOf({ enabled: true });
  expect(given).toMatch(/^[a-z0-9-]+\.apps\.example\.test$/);
  expect(await wildcardOf({ http_port: 8080 })).toBe(given);
  expect(await wildcardOf({ wildcard_domain: null })).toBeNull();
  expect(await wildcardOf({ enabled: true })).toBeNull();
  await admin.put(`/servers/${server}`, { ingress: null });
  expect(await wildcardOf({ wildcard_domain: 'own.example.test' })).toBe('own.example.test');
});
