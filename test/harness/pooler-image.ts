import { ensurePackageImage } from './package-image.ts';

/**
 * Makes an image of PgBouncer with the client of PostgreSQL unless this machine's engine has it, as databases with
 * `connection_pooling` run it. It runs as the user that the package is made for. Answers with its reference.
 */
export async function ensurePoolerImage(): Promise<string> {
  return ensurePackageImage('pgbouncer', {
    suite: 'trixie',
    packages: ['pgbouncer', 'postgresql-client-17'],
    lines: ['ENV PATH=/usr/lib/postgresql/17/bin:$PATH', 'EXPOSE 6432', 'USER postgres'],
  });
}
