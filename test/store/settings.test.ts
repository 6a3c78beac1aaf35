import { describe, expect, it } from 'vitest';
import { RegistryHost } from '../../store/kinds/settings.ts';
import { defaultSettings, isAllowedRegistry } from '../../store/settings.ts';

describe('the registries that images may come from', () => {
  it('are by default large public ones, and none on this machine or in a private network', () => {
    for (const host of ['docker.io', 'ghcr.io', 'quay.io', 'registry.gitlab.com', 'public.ecr.aws', 'eu.gcr.io'])
      expect(isAllowedRegistry(defaultSettings.registries, host), host).toBe(true);
    for (const host of [
      'localhost',
      'localhost:5000',
      '127.0.0.1:5000',
      '10.0.0.5:5000',
      '169.254.169.254',
      '[::1]:5000',
      'docker.io:5000',
      'evil-docker.io',
      'docker.io.evil.test',
    ])
      expect(isAllowedRegistry(defaultSettings.registries, host), host).toBe(false);
    for (const host of defaultSettings.registries) expect(RegistryHost.parse(host)).toBe(host);
  });

  it('are named by host and port, or by a name that they lie below', () => {
    const named = ['localhost:5000', '[::1]:5000', '*.example.com', '*.example.org:8443'];
    for (const host of ['localhost:5000', '[::1]:5000', 'a.example.com', 'a.b.example.com', 'a.example.org:8443'])
      expect(isAllowedRegistry(named, host), host).toBe(true);
    for (const host of [
      'localhost',
      'localhost:5001',
      'example.com',
      '.example.com',
      'a.example.com:1',
      'aexample.com',
    ])
      expect(isAllowedRegistry(named, host), host).toBe(false);
    expect(isAllowedRegistry(['*.0.0.1'], '127.0.0.1')).toBe(false);
  });

  it('have one grammar', () => {
    for (const good of ['ghcr.io', 'a', 'a-b.c:65535', '*.a.b', '[fd00::1]', '[::1]:5000', '10.0.0.1:5000'])
      expect(RegistryHost.safeParse(good).success, good).toBe(true);
    for (const bad of ['', '*', '*.', 'a..b', '-a', 'a-', 'GHCR.io', 'a/b', 'https://a', 'a:', 'a b', 'a.*', '**.a'])
      expect(RegistryHost.safeParse(bad).success, bad).toBe(false);
  });
});
