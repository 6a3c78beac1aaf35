import { readFile, realpath } from 'node:fs/promises';
import { arch } from 'node:os';
import { docker } from '../harness/engine.ts';
import { ensurePackageImage, type PackageImage } from '../harness/package-image.ts';
import { npmAccess } from '../harness/package-sources.ts';

const authorities = '/etc/test-authorities.pem';

type LanguageImage = Omit<PackageImage, 'suite'>;

/**
 * Images in place of the official ones of Docker Hub, by name and tag: made of Debian's packages, with that of the
 * contract of the official image which generated Dockerfiles rely on.
 */
const images: Readonly<Record<string, () => LanguageImage | Promise<LanguageImage>>> = {
  'debian:bookworm-slim': () => ({}),
  'node:24-slim': nodeImage,
  'python:3.11-slim': () => ({
    packages: ['python3', 'python3-venv', 'python3-pip'],
    lines: ['RUN ln -s /usr/bin/python3 /usr/local/bin/python', 'CMD ["python3"]'],
  }),
  'golang:1.19': () => ({
    packages: ['golang-go', 'git', 'zip'],
    lines: [
      'RUN mkdir -p /usr/local/go/lib/time && cd /usr/share/zoneinfo && zip -0 -q -r /usr/local/go/lib/time/zoneinfo.zip .',
      'ENV GOPATH=/go',
      'WORKDIR /go',
      'CMD ["bash"]',
    ],
  }),
  'composer:2': () => ({
    packages: ['composer', 'unzip', 'git'],
    lines: ['WORKDIR /app', 'CMD ["composer"]'],
  }),
  'php:8.2-apache': () => ({
    packages: [
      'apache2',
      'libapache2-mod-php8.2',
      ...['sqlite3', 'mbstring', 'xml', 'curl'].map((it) => `php8.2-${it}`),
    ],
    lines: [
      'RUN a2dismod mpm_event; a2enmod mpm_prefork php8.2',
      "RUN sed -ri 's/^export ([^=]+)=(.*)$/: ${\\1:=\\2}\\nexport \\1/' /etc/apache2/envvars && . /etc/apache2/envvars && for dir in $APACHE_LOCK_DIR $APACHE_RUN_DIR $APACHE_LOG_DIR; do rm -rf $dir && mkdir -p $dir && chown $APACHE_RUN_USER:$APACHE_RUN_GROUP $dir && chmod 1777 $dir; done && ln -sfT /dev/stderr $APACHE_LOG_DIR/error.log && ln -sfT /dev/stdout $APACHE_LOG_DIR/access.log && ln -sfT /dev/stdout $APACHE_LOG_DIR/other_vhosts_access.log",
      'RUN mkdir -p /usr/local/etc/php && cp /usr/lib/php/8.2/php.ini-production /usr/lib/php/8.2/php.ini-development /usr/local/etc/php/ && ln -sf /usr/local/etc/php/php.ini /etc/php/8.2/apache2/php.ini && ln -s /etc/php/8.2/apache2/conf.d /usr/local/etc/php/conf.d',
      'COPY apache2-foreground /usr/local/bin/',
      'STOPSIGNAL SIGWINCH',
      'WORKDIR /var/www/html',
      'EXPOSE 80',
      'CMD ["apache2-foreground"]',
    ],
    files: {
      'apache2-foreground':
        '#!/bin/sh\nset -e\n. /etc/apache2/envvars\nrm -f "$APACHE_PID_FILE"\nexec apache2 -DFOREGROUND "$@"\n',
    },
  }),
  'ruby:3.1': () => rubyImage('ruby', 'ruby-dev', 'bundler', 'build-essential'),
  'ruby:3.1-slim': () => rubyImage('ruby', 'bundler'),
  'rust:1.63-bookworm': () => ({
    packages: ['cargo', 'rustc', 'gcc', 'libc6-dev'],
    lines: ['ENV CARGO_HOME=/usr/local/cargo', 'CMD ["bash"]'],
  }),
  'caddy:2-alpine': async () => ({
    packages: ['libcap2-bin'],
    lines: [
      'COPY caddy /usr/bin/caddy',
      'RUN chmod 755 /usr/bin/caddy && setcap cap_net_bind_service=+ep /usr/bin/caddy && mkdir -p /config/caddy /data/caddy /etc/caddy /srv',
      'ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data',
      'EXPOSE 80 443 443/udp 2019',
      'WORKDIR /srv',
      'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]',
    ],
    files: { caddy: await readFile(await realpath('/usr/local/bin/caddy')) },
  }),
};

async function nodeImage(): Promise<LanguageImage> {
  const npm = await npmAccess();
  const settings = Object.entries(npm.variables(authorities)).map(([name, value]) => `ENV ${name}=${value}`);
  return {
    packages: ['libstdc++6', 'libatomic1'],
    npm: { node: `node-linux-${arch()}@24.9.0`, npm: 'npm@11.6.0' },
    files: {
      'docker-entrypoint.sh':
        '#!/bin/sh\nset -e\nif [ "${1#-}" != "${1}" ] || [ -z "$(command -v "${1}")" ]; then set -- node "$@"; fi\nexec "$@"\n',
      authorities: npm.authorities === undefined ? '' : await readFile(npm.authorities),
    },
    lines: [
      ...settings,
      `COPY authorities ${authorities}`,
      'COPY node/bin/node docker-entrypoint.sh /usr/local/bin/',
      'COPY npm /usr/local/lib/node_modules/npm',
      'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx && groupadd --gid 1000 node && useradd --uid 1000 --gid node --create-home node',
      'ENTRYPOINT ["docker-entrypoint.sh"]',
      'CMD ["node"]',
    ],
  };
}

function rubyImage(...packages: string[]): LanguageImage {
  return {
    packages,
    lines: [
      'ENV GEM_HOME=/usr/local/bundle BUNDLE_SILENCE_ROOT_WARNING=1 BUNDLE_APP_CONFIG=/usr/local/bundle PATH=/usr/local/bundle/bin:$PATH',
      'RUN mkdir -p "$GEM_HOME" && chmod 1777 "$GEM_HOME"',
      'CMD ["irb"]',
    ],
  };
}

/** Images with names of that registry, which they lose when it is disposed. */
export interface LanguageImages extends AsyncDisposable {
  /** Makes the image unless it was made. */
  ensure(name: string): Promise<void>;
}

/** Makes images `REGISTRY/NAME:TAG` when they are asked for. Needs root and `mmdebstrap`. */
export function languageImages(registry: string): LanguageImages {
  const named = new Set<string>();
  return {
    async ensure(name) {
      const image = images[name];
      if (image === undefined) throw new Error(`No image stands for ${name}`);
      const reference = `${registry}/${name}`;
      if (named.has(reference)) return;
      const made = await ensurePackageImage(name.replaceAll(/\W/g, '-'), { suite: 'bookworm', ...(await image()) });
      await docker('tag', made, reference);
      named.add(reference);
    },
    async [Symbol.asyncDispose]() {
      if (named.size > 0) await docker('rmi', '--force', ...named);
    },
  };
}
