import type { PackageImage } from '../../harness/package-image.ts';

/** An image of a product in PHP, served by Apache as in the official images of PHP. */
export function phpImage({ files, lines = [], packages = [], ...image }: PackageImage): PackageImage {
  return {
    ...image,
    packages: ['apache2', 'libapache2-mod-php', ...packages],
    files: {
      ...files,
      'apache2-foreground':
        '#!/bin/sh\nset -e\n. /etc/apache2/envvars\nrm -f "$APACHE_PID_FILE"\nexec apache2 -DFOREGROUND\n',
      'served.conf': 'ServerName localhost\n<Directory /var/www/html>\n  AllowOverride All\n</Directory>\n',
    },
    lines: [
      'COPY apache2-foreground /usr/local/bin/',
      'COPY served.conf /etc/apache2/conf-enabled/',
      'RUN mkdir -p /run/apache2 /run/lock/apache2 && ln -sfT /dev/stderr /var/log/apache2/error.log && ln -sfT /dev/stdout /var/log/apache2/access.log && ln -sfT /dev/stdout /var/log/apache2/other_vhosts_access.log',
      'STOPSIGNAL SIGWINCH',
      'EXPOSE 80',
      'CMD ["apache2-foreground"]',
      ...lines,
    ],
  };
}
