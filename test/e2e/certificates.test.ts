import { connect } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { refusedDomain, startAcmeServer } from '../harness/acme-server.ts';
import type { AcmeServer } from '../harness/acme-server.ts';
import { brief, Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureCaddyImage, ensureTestImages } from '../harness/test-image.ts';
import { askHost } from '../harness/through-proxy.ts';

let town: Installation;
let acme: AcmeServer;
let image: string;
let https_port: number;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  const caddy = await ensureCaddyImage();
  const http_port = await freePort();
  https_port = await freePort();
  acme = await startAcmeServer({ http: http_port, https: https_port, validitySeconds: 45 });
  town = await Installation.start({ store: 'sqlite', serverFlags: ['--ingress-image', caddy] });
  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
    direct_ports_enabled: false,
    ingress: {
      http_port,
      https_port,
      acme_directory: acme.directory,
      acme_ca: acme.ca,
      wildcard_domain: 'apps.example.test',
    },
  });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
  await acme[Symbol.asyncDispose]();
});

/** The number of the certificate that the server shows for a host, and who gave it. */
function shown(host: string): Promise<{ serial: string; issuer: string }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: https_port, servername: host, rejectUnauthorized: false });
    socket.on('error', reject);
    socket.on('secureConnect', () => {
      const { serialNumber, issuer } = socket.getPeerCertificate();
      socket.destroy();
      resolve({ serial: serialNumber, issuer: String(issuer['CN']) });
    });
  });
}

it('gets a certificate of the authority for a new domain by itself, and renews it', async () => {
  const app = await town.createApplication({
    ...brief,
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    env: { APP: 'certified' },
    domains: [{ host: 'certified.example.test' }],
  });
  await town.deploy(app.id);
  const condition = await town.until(
    'its certificate is there',
    async () => {
      const { conditions } = await town.application(app.id);
      return conditions?.find((one) => one.type === 'CertificateReady' && one.status === 'true');
    },
    90_000,
  );
  // It has another one for its generated address, and either may be the next that ends.
  expect(condition.message).toMatch(/certified\.example\.test|apps\.example\.test/);
  expect(condition.message).toMatch(/by .*Pebble/);
  const first = await shown('certified.example.test');
  expect(first.issuer).toMatch(/Pebble/);
  const renewed = await town.until(
    'it is renewed',
    async () => {
      const now = await shown('certified.example.test');
      return now.serial === first.serial ? undefined : now;
    },
    90_000,
  );
  expect(renewed.issuer).toMatch(/Pebble/);
  await town.until(
    'it answers',
    async () => (await askHost('https://certified.example.test/env/APP', https_port)).body === 'certified',
    60_000,
  );
});

it('gives an application an address with a certificate without a word', async () => {
  const app = await town.createApplication({
    ...brief,
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    env: { APP: 'wordless' },
  });
  await town.deploy(app.id);
  const host = `${String(app['internal_id'])}.apps.example.test`;
  await town.until(
    'it answers',
    async () => (await askHost(`https://${host}/env/APP`, https_port)).body === 'wordless',
    90_000,
  );
  expect((await shown(host)).issuer).toMatch(/Pebble/);
});

it('says in the words of the authority why a domain has no certificate', async () => {
  const app = await town.createApplication({
    ...brief,
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    domains: [{ host: refusedDomain }],
  });
  await town.deploy(app.id);
  const condition = await town.until(
    'the reason is shown',
    async () => {
      const { conditions } = await town.application(app.id);
      return conditions?.find((one) => one.type === 'CertificateReady' && one.message.includes('rejectedIdentifier'));
    },
    120_000,
  );
  expect(condition.status).toBe('false');
  expect(condition.message).toContain(refusedDomain);
});
