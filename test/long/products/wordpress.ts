import { expect } from 'vitest';
import { z } from 'zod';
import { phpImage } from './php-image.ts';
import { edited, type Product } from './product.ts';

const title = 'Ledger of things';
const password = 'correct horse battery staple';
const Index = z.object({ name: z.string(), home: z.string() });

/** As that of the official image: its settings are variables, and it is made when it is missing. */
const config = `<?php
function variable($name, $default = '') { $value = getenv($name); return $value === false ? $default : $value; }
define('DB_NAME', variable('WORDPRESS_DB_NAME', 'wordpress'));
define('DB_USER', variable('WORDPRESS_DB_USER'));
define('DB_PASSWORD', variable('WORDPRESS_DB_PASSWORD'));
define('DB_HOST', variable('WORDPRESS_DB_HOST', 'mysql'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT', 'SECURE_AUTH_SALT', 'LOGGED_IN_SALT', 'NONCE_SALT'] as $name)
  define($name, variable("WORDPRESS_$name", hash_hmac('sha256', $name, 'GENERATED')));
$table_prefix = variable('WORDPRESS_TABLE_PREFIX', 'wp_');
define('WP_DEBUG', !!variable('WORDPRESS_DEBUG'));
if (strpos($_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '', 'https') !== false) $_SERVER['HTTPS'] = 'on';
eval(variable('WORDPRESS_CONFIG_EXTRA'));
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
`;
const entrypoint = `#!/bin/bash
set -eo pipefail
if [ ! -e index.php ] && [ ! -e wp-includes/version.php ]; then
  cp -a /usr/src/wordpress/. .
fi
if [ ! -s wp-config.php ]; then
  sed "s/GENERATED/$(head -c 32 /dev/urandom | sha256sum | cut -d' ' -f1)/" /usr/src/wp-config-docker.php >wp-config.php
  chown www-data:www-data wp-config.php
fi
exec "$@"
`;

/** Its files are in a volume, its texts in MySQL. The upgrade gives it a domain, which the template has not. */
export const wordpress: Product = {
  name: 'wordpress',
  image: phpImage({
    suite: 'sid',
    packages: ['wordpress', 'wordpress-theme-twentytwentyfive'],
    files: { 'wp-config-docker.php': config, 'wordpress-entrypoint': entrypoint },
    lines: [
      // of what others package too, Debian has links
      'RUN find -L /usr/share/wordpress /var/lib/wordpress -type l -delete && mkdir /usr/src/wordpress && cp -rL /var/lib/wordpress/wp-content /usr/share/wordpress/. /usr/src/wordpress/ && rm -f /usr/src/wordpress/wp-config.php /var/www/html/index.html && chown -R www-data:www-data /usr/src/wordpress /var/www/html',
      'COPY wp-config-docker.php /usr/src/',
      'COPY wordpress-entrypoint /usr/local/bin/',
      'WORKDIR /var/www/html',
      'VOLUME /var/www/html',
      'ENTRYPOINT ["wordpress-entrypoint"]',
    ],
  }),
  variables: () => ({}),
  secrets: [],
  upgrade: {
    text: (text) =>
      edited(
        text,
        ['databases:\n', 'variables:\n  - name: DOMAIN\n    type: domain\ndatabases:\n'],
        [
          '    env:\n',
          "    domains:\n      - host: ${DOMAIN}\n    env:\n      WORDPRESS_CONFIG_EXTRA: define('WP_HOME', 'https://${DOMAIN}');\n",
        ],
      ),
    variables: { DOMAIN: 'blog.example.test' },
    fields: ['domains', 'env.WORDPRESS_CONFIG_EXTRA'],
  },
  async setUp(site) {
    const page = await site.ask('/wp-admin/install.php');
    expect(page.body).toContain('<title>WordPress &rsaquo; Installation</title>');
    const form = {
      weblog_title: title,
      user_name: 'keeper',
      admin_password: password,
      admin_password2: password,
      pw_weak: '1',
      admin_email: 'keeper@example.test',
      language: '',
    };
    const done = await site.ask('/wp-admin/install.php?step=2', { method: 'POST', form });
    expect(done.body).toContain('WordPress has been installed');
    await site.inside('sh', '-c', 'mkdir -p wp-content/uploads && echo kept >wp-content/uploads/note.txt');
  },
  async look(site, isUpgraded) {
    expect(site.host).toMatch(isUpgraded ? /^blog\.example\.test$/ : /\.apps\.example\.test$/);
    const { status, body } = await site.ask('/');
    expect(status).toBe(200);
    expect(body).toContain(`<title>${title}`);
    expect(body).toMatch(/<meta name="generator" content="WordPress 7\.\d/);
    const index = Index.parse(JSON.parse((await site.ask('/index.php?rest_route=/')).body));
    // the port is that of the proxy, which no product sees
    expect(index).toMatchObject({ name: title, home: `https://${site.host}` });
    expect((await site.ask('/wp-content/uploads/note.txt')).body).toBe('kept\n');
    const login = { log: 'keeper', pwd: password, testcookie: '1' };
    const headers = { cookie: 'wordpress_test_cookie=WP%20Cookie%20check' };
    const { headers: answered } = await site.ask('/wp-login.php', { method: 'POST', form: login, headers });
    expect(String(answered['set-cookie'])).toContain('wordpress_logged_in_');
  },
};
