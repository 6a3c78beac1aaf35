import { describe, expect, it } from 'vitest';
import { healthOf, tellingLabels } from '../../../agent/runtime/foreign.ts';

describe('a health check', () => {
  it.each<[test: string[], told: ReturnType<typeof healthOf>]>([
    [[], undefined],
    [['NONE'], undefined],
    [['CMD', 'curl', '-f', 'http://localhost:3000/healthz'], { port: 3000, path: '/healthz' }],
    [['CMD-SHELL', 'wget -qO- http://127.0.0.1/up || exit 1'], { port: 80, path: '/up' }],
    [['CMD-SHELL', "curl -f 'http://[::1]:8080' | grep ok"], { port: 8080, path: '/' }],
    [['CMD', 'curl', 'http://localhost/up?token=hunter2'], {}],
    [['CMD', 'curl', 'http://localhost:99999/up'], {}],
    [['CMD-SHELL', 'curl http://localhost/a && curl http://localhost/b'], {}],
    [['CMD', 'curl', 'http://other.example/up'], {}],
    [['CMD', 'pg_isready'], {}],
  ])('%j', (test, told) => {
    expect(healthOf(test)).toEqual(told);
  });
});

it('labels are told only if they say who made a container, as others can have passwords in them', () => {
  const telling = {
    'com.docker.compose.project': 'shop',
    'coolify.managed': 'true',
    'coolify.service.subName': 'db',
    'traefik.http.routers.web.rule': 'Host(`a.example`)',
    'traefik.http.services.web.loadbalancer.server.port': '3000',
    'org.opencontainers.image.source': 'https://git.example/shop',
  };
  const others = {
    'traefik.http.middlewares.auth.basicauth.users': 'admin:$apr1$hunter2',
    'com.docker.compose.config-hash': 'x',
    // an earlier release of Coolify keeps the whole record of a database in it, with its passwords
    'coolify.configuration': 'eyJwYXNzd29yZCI6Imh1bnRlcjIifQ==',
    password: 'hunter2',
    'com.docker.stack.namespace': 'x'.repeat(1001),
  };
  expect(tellingLabels({ ...telling, ...others })).toEqual(telling);
});

it('the address of a repository is told without the user and the password in it', () => {
  const name = 'org.opencontainers.image.source';
  for (const user of ['hunter2@', 'shop:hunter2@'])
    expect(tellingLabels({ [name]: `https://${user}git.example/shop` })).toEqual({
      [name]: 'https://git.example/shop',
    });
});
