import { z } from 'zod';
import {
  argLines,
  copy,
  from,
  header,
  homeLine,
  lacking,
  run,
  user,
  type DockerfileSettings,
  type Language,
} from './recipe.ts';
import { jsonIn, type RepositoryFiles } from './repository-files.ts';
import { pinned, within } from './version.ts';

const usual = '8.4';
const defaultPort = 8080;

const Composer = z.object({
  require: z.record(z.string(), z.unknown()).catch({}).default({}),
  config: z
    .object({ platform: z.object({ php: z.string().max(100).optional() }).optional() })
    .optional()
    .catch(undefined),
});
type Composer = z.infer<typeof Composer>;

/** Extensions that the official image has. */
const included =
  'ctype curl dom fileinfo filter hash iconv json libxml mbstring openssl pcre pdo pdo_sqlite phar posix random readline reflection session simplexml sodium spl sqlite3 standard tokenizer xml xmlreader xmlwriter zlib opcache'.split(
    ' ',
  );
/** Extensions that are built without another library. */
const buildable = ['bcmath', 'calendar', 'exif', 'mysqli', 'pcntl', 'pdo_mysql', 'sockets'];

/** Packages of Symfony that read `.env`, which its applications keep in the repository, without secrets. */
const readsEnvFile = ['symfony/runtime', 'symfony/dotenv', 'symfony/framework-bundle', 'symfony/symfony'];

/** Applications of PHP, served by Apache. */
export const php: Language = async (files, settings) => {
  const composer = await jsonIn(files, 'composer.json', Composer);
  const root = (await files.has('public/index.php'))
    ? '/app/public'
    : (await files.has('index.php'))
      ? '/app'
      : undefined;
  if (root === undefined) {
    if (composer === undefined) return undefined;
    throw lacking(
      'composer.json is there, but neither public/index.php nor index.php, which answer requests: add one, or a Dockerfile',
    );
  }
  const version = versionOf(composer);
  const extensions = extensionsOf(composer);
  const isSymfony = readsEnvFile.some((name) => Object.hasOwn(composer?.require ?? {}, name));
  const lock = (await files.has('composer.lock')) ? ['composer.lock'] : [];
  return {
    language: 'php',
    reasons: [
      `${composer === undefined ? 'index.php' : 'composer.json'}: an application of PHP ${version}, served by Apache from ${root}`,
      ...(extensions.length > 0 ? [`composer.json: it needs the extensions ${extensions.join(', ')}`] : []),
      ...(composer !== undefined && lock.length === 0
        ? ['There is no composer.lock, so that composer decides the versions anew with each build. Commit it']
        : []),
      ...(await envReasons(files, isSymfony)),
    ],
    lines: [
      ...header,
      ...(composer === undefined
        ? []
        : [
            from('composer:2', 'build'),
            'WORKDIR /app',
            '# Packages first: this layer stays as long as their list does',
            copy(['composer.json', ...lock], './'),
            run([[...install, '--no-autoloader']]),
            ...argLines(settings),
            'COPY . .',
            run([[...install, '--optimize-autoloader']]),
            '',
          ]),
      '# What runs: no rights, no files of root',
      from(`php:${version}-apache`),
      ...(extensions.length > 0 ? [run([['docker-php-ext-install', ...extensions]])] : []),
      'RUN a2enmod rewrite && mv /usr/local/etc/php/php.ini-production /usr/local/etc/php/php.ini',
      '# $_ENV has the variables of the application',
      'RUN echo variables_order=EGPCS > /usr/local/etc/php/conf.d/variables.ini',
      ...server(root),
      homeLine,
      ...(isSymfony ? ['ENV APP_ENV=prod'] : []),
      composer === undefined ? `COPY --chown=${user} . /app` : `COPY --from=build --chown=${user} /app /app`,
      'WORKDIR /app',
      ...port(settings),
      `USER ${user}`,
      'CMD ["apache2-foreground"]',
      '',
    ],
    ignore: ['.git', 'vendor', '**/node_modules', '.env.local', '.env.*.local', ...(isSymfony ? [] : ['.env'])],
  };
};

async function envReasons(files: RepositoryFiles, isSymfony: boolean): Promise<string[]> {
  const hasFile = await files.has('.env');
  if (isSymfony)
    return [
      `composer.json: an application of Symfony runs with APP_ENV=prod${hasFile ? ' and with .env, which variables of the application come before' : ''}`,
    ];
  return hasFile ? ['.env stays out of the image: give what it sets as variables of the application'] : [];
}

const install = [
  'composer',
  'install',
  '--no-dev',
  '--no-interaction',
  '--prefer-dist',
  '--no-scripts',
  '--ignore-platform-reqs',
];

/** The settings of the web server: lines without quotes. Its variables are of its environment. */
function server(root: string): string[] {
  const lines = [
    'Listen ${PORT}',
    'ServerName localhost',
    'ServerTokens Prod',
    `DocumentRoot ${root}`,
    `<Directory ${root}>`,
    '  AllowOverride All',
    '  Require all granted',
    '  FallbackResource /index.php',
    '</Directory>',
    '<DirectoryMatch /\\.(?!well-known)>',
    '  Require all denied',
    '</DirectoryMatch>',
    '<FilesMatch ^\\.>',
    '  Require all denied',
    '</FilesMatch>',
  ];
  return [
    "RUN a2dissite 000-default && printf '%s\\n' \\",
    ...lines.map((line) => `  '${line}' \\`),
    '  > /etc/apache2/ports.conf',
  ];
}

function port({ port: given = defaultPort }: DockerfileSettings): string[] {
  return [`ENV PORT=${given}`, `EXPOSE ${given}`];
}

function versionOf(composer: Composer | undefined): string {
  const platform = pinned(composer?.config?.platform?.php ?? '');
  if (platform !== undefined && /^\d\.\d+$/.test(platform)) return platform;
  const range = composer?.require['php'];
  return typeof range === 'string' ? within(range, usual) : usual;
}

function extensionsOf(composer: Composer | undefined): string[] {
  const named = Object.keys(composer?.require ?? {})
    .filter((name) => name.startsWith('ext-'))
    .map((name) => name.slice(4).toLowerCase())
    .filter((name) => !included.includes(name));
  const unknown = named.find((name) => !buildable.includes(name));
  if (unknown !== undefined)
    throw lacking(
      `composer.json needs the extension ${unknown.replaceAll(/[^a-z0-9_-]/g, '?').slice(0, 40)}, which needs libraries: add a Dockerfile that installs it`,
    );
  return named;
}
