import { expect } from 'vitest';
import { phpImage } from './php-image.ts';
import { browser, type Product } from './product.ts';

/** As that of the official image: its settings are variables. */
const config = `<?php
require '/etc/phpmyadmin/config.secret.inc.php';
if (getenv('PMA_ABSOLUTE_URI')) $cfg['PmaAbsoluteUri'] = trim(getenv('PMA_ABSOLUTE_URI'));
$cfg['Servers'][1] = ['host' => getenv('PMA_HOST') ?: 'db', 'auth_type' => 'cookie'];
`;
const entrypoint = `#!/bin/bash
set -eo pipefail
secret=/etc/phpmyadmin/config.secret.inc.php
if [ ! -f $secret ]; then
  echo "<?php \\$cfg['blowfish_secret'] = '$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')';" >$secret
fi
exec "$@"
`;

/** It keeps nothing: what it shows is in a database beside it. The upgrade allows larger files, by a variable. */
export const phpmyadmin: Product = {
  name: 'phpmyadmin',
  image: phpImage({
    suite: 'trixie',
    packages: ['phpmyadmin', 'dbconfig-no-thanks'],
    files: {
      'config.inc.php': config,
      'phpmyadmin-entrypoint': entrypoint,
      'uploads.ini': 'upload_max_filesize=${UPLOAD_LIMIT}\npost_max_size=${UPLOAD_LIMIT}\n',
    },
    lines: [
      'COPY config.inc.php /etc/phpmyadmin/config.inc.php',
      'COPY uploads.ini /tmp/',
      'COPY phpmyadmin-entrypoint /usr/local/bin/',
      'RUN for folder in /etc/php/*/apache2/conf.d; do cp /tmp/uploads.ini $folder/99-uploads.ini; done && rm -rf /var/www/html && ln -s /usr/share/phpmyadmin /var/www/html',
      'ENV UPLOAD_LIMIT=2048K',
      'ENTRYPOINT ["phpmyadmin-entrypoint"]',
    ],
  }),
  database: 'mariadb',
  variables: ({ host }) => ({ DOMAIN: 'pma.example.test', DATABASE_HOST: host }),
  secrets: [],
  upgrade: { variables: { UPLOAD_LIMIT: '96M' }, fields: ['env.UPLOAD_LIMIT'] },
  setUp: () => Promise.resolve(),
  async look(site, isUpgraded) {
    const ask = browser(site);
    const first = await ask('/');
    expect(first.status).toBe(200);
    expect(first.body).toContain('<title>phpMyAdmin</title>');
    const hidden = (name: string): string => new RegExp(`name="${name}" value="([^"]*)"`).exec(first.body)?.[1] ?? '';
    const { user, password } = site.database;
    const form = {
      set_session: hidden('set_session'),
      pma_username: user,
      pma_password: password,
      server: '1',
      route: '/',
      token: hidden('token'),
    };
    const login = await ask('/index.php?route=/', { method: 'POST', form });
    expect(login.status, login.body).toBe(302);
    const { body } = await ask('/index.php?route=/server/import');
    expect(body).toContain(isUpgraded ? 'Max: 96MiB' : 'Max: 64MiB');
    const databases = await ask('/index.php?route=/server/databases');
    expect(databases.body).toContain('information_schema');
  },
};
