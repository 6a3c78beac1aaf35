import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:tls';
import { expect, test } from 'vitest';
import { issue, newAuthority } from '../../../controllers/database/x509.ts';

const dayMs = 86_400_000;
const from = new Date();
const until = new Date(from.getTime() + 730 * dayMs);
const names = ['orders-0a1b2c', 'localhost', '127.0.0.1', '::1'] as const;
const authorityOf = (name: string) => newAuthority({ name, from, until: new Date(from.getTime() + 7300 * dayMs) });

test('an authority signs itself, and may sign certificates alone', () => {
  const it = new X509Certificate(authorityOf(`Databases of environment ${crypto.randomUUID()}`).certificate);
  expect([it.ca, it.verify(it.publicKey), it.checkIssued(it)]).toEqual([true, true, true]);
});

test('a certificate is for its names and addresses, for so long, and of its authority', () => {
  const authority = authorityOf('one');
  const { certificate } = issue(authority, { names, from, until });
  const [it, of] = [new X509Certificate(certificate), new X509Certificate(authority.certificate)];
  expect([it.ca, it.checkIssued(of), it.verify(of.publicKey)]).toEqual([false, true, true]);
  expect(it.verify(new X509Certificate(authorityOf('one').certificate).publicKey)).toBe(false);
  expect([it.checkHost('orders-0a1b2c'), it.checkHost('orders-0a1b2d')]).toEqual(['orders-0a1b2c', undefined]);
  expect([it.checkIP('127.0.0.1'), it.checkIP('::1'), it.checkIP('127.0.0.2')]).toEqual([
    '127.0.0.1',
    '::1',
    undefined,
  ]);
  expect(Math.floor(until.getTime() / 1000)).toBe(it.validToDate.getTime() / 1000);
  expect(it.validFromDate < from).toBe(true);
  expect(it.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
  expect(it.serialNumber).toMatch(/^[4-7][0-9A-F]{31}$/);
});

test('a client that knows the authority trusts a server with the certificate by its names, and by no other', async () => {
  const authority = authorityOf('one');
  const { certificate: cert, key } = issue(authority, { names, from, until });
  const server = createServer({ cert, key }, (socket) => void socket.end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connected = async (ca: string, servername: string): Promise<string> => {
    const socket = connect({ host: '127.0.0.1', port, ca, servername });
    try {
      await once(socket, 'secureConnect');
      return 'trusted';
    } catch (error) {
      return (error as NodeJS.ErrnoException).code ?? String(error);
    } finally {
      socket.destroy();
    }
  };
  try {
    expect(await connected(authority.certificate, 'orders-0a1b2c')).toBe('trusted');
    expect(await connected(authority.certificate, 'others')).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
    expect(await connected(authorityOf('another').certificate, 'orders-0a1b2c')).toMatch(/VERIFY|SIGNED/);
  } finally {
    server.close();
  }
});
