import { z } from 'zod';
import {
  argLines,
  copy,
  debianPackages,
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

const texts = z.record(z.string(), z.unknown()).catch({}).default({});
const Lock = z.object({
  packages: z
    .array(z.object({ name: z.string().catch(''), require: texts, provide: texts, replace: texts }))
    .catch([])
    .default([]),
});
/** What a package requires, by the file that says so. */
interface Requirement {
  by: string;
  require: Readonly<Record<string, unknown>>;
}

const Package = z.object({
  scripts: texts,
  dependencies: texts,
  devDependencies: texts,
});

/** Extensions that the official image has. */
const included =
  'core ctype curl date dom fileinfo filter hash iconv json libxml mbstring mysqlnd openssl pcre pdo pdo_sqlite phar posix random readline reflection session simplexml sodium spl sqlite3 standard tokenizer xml xmlreader xmlwriter zlib opcache zend-opcache'.split(
    ' ',
  );
/** Extensions that are built without another library. */
const buildable = 'bcmath calendar exif gettext mysqli pcntl pdo_mysql shmop sockets sysvmsg sysvsem sysvshm'.split(
  ' ',
);
/** Packages of Debian with the libraries of extensions, by the extension. */
const libraries: Readonly<Record<string, readonly string[]>> = {
  gd: ['libfreetype-dev', 'libjpeg62-turbo-dev', 'libpng-dev'],
  gmp: ['libgmp-dev'],
  intl: ['libicu-dev'],
  soap: ['libxml2-dev'],
  zip: ['libzip-dev'],
};
/** The first version whose image is of a Debian that still has its packages. */
const librariesSince = 8.1;
/** Most extensions of locked packages that are named as missing. */
const maxMissing = 10;

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
  const locked = await lockedIn(files);
  const { requirements, provided } = requiredBy(composer, locked);
  const version = versionOf(composer, requirements);
  const { extensions, missing } = extensionsOf(requirements, provided, version);
  const unbuilt = await unbuiltAssets(files, composer);
  const isSymfony = readsEnvFile.some((name) => Object.hasOwn(composer?.require ?? {}, name));
  const lock = (await files.has('composer.lock')) ? ['composer.lock'] : [];
  return {
    language: 'php',
    reasons: [
      `${composer === undefined ? 'index.php' : 'composer.json'}: an application of PHP ${version}, served by Apache from ${root}`,
      ...(extensions.length > 0
        ? [`composer.json: it and its packages need the extensions ${extensions.join(', ')}`]
        : []),
      ...(composer === undefined ? [] : lockReasons(lock, locked)),
      ...missing,
      ...unbuilt,
      ...(await envReasons(files, isSymfony)),
    ],
    lines: [
      ...header,
      ...(composer === undefined ? [] : packageLines(lock, settings)),
      '# What runs: no rights, no files of root',
      from(`php:${version}-apache`),
      ...extensionLines(extensions),
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

/** The stage that installs the packages. */
function packageLines(lock: readonly string[], settings: DockerfileSettings): string[] {
  return [
    from('composer:2', 'build'),
    'WORKDIR /app',
    '# Packages first: this layer stays as long as their list does',
    copy(['composer.json', ...lock], './'),
    run([[...install, '--no-autoloader']]),
    ...argLines(settings),
    'COPY . .',
    run([[...install, '--optimize-autoloader']]),
    '',
  ];
}

function extensionLines(extensions: readonly string[]): string[] {
  if (extensions.length === 0) return [];
  const needed = extensions.flatMap((name) => libraries[name] ?? []);
  return [
    ...debianPackages(needed),
    ...(extensions.includes('gd') ? [run([['docker-php-ext-configure', 'gd', '--with-freetype', '--with-jpeg']])] : []),
    run([['docker-php-ext-install', ...extensions]]),
  ];
}

function lockReasons(lock: readonly string[], locked: Locked | undefined): string[] {
  if (lock.length === 0)
    return ['There is no composer.lock, so that composer decides the versions anew with each build. Commit it'];
  if (locked !== undefined) return [];
  return ['composer.lock is too long: the versions and extensions of PHP that its packages need are not looked at'];
}

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

interface Locked {
  requirements: readonly Requirement[];
  /** Names that its packages stand for, such as `ext-mbstring`. */
  provided: ReadonlySet<string>;
}

/** What composer.lock installs; `undefined` if it cannot be read as a whole. */
async function lockedIn(files: RepositoryFiles): Promise<Locked | undefined> {
  const text = (await files.head('composer.lock')) ?? '{}';
  const read = Lock.safeParse(parsed(text));
  if (!read.success) return undefined;
  const { packages } = read.data;
  return {
    requirements: packages.map(({ name, require }) => ({ by: `composer.lock: the package ${shown(name)}`, require })),
    provided: new Set(packages.flatMap(({ provide, replace }) => Object.keys({ ...provide, ...replace }))),
  };
}

function requiredBy(composer: Composer | undefined, locked: Locked | undefined): Locked {
  const { requirements = [], provided = new Set<string>() } = locked ?? {};
  return { requirements: [{ by: 'composer.json', require: composer?.require ?? {} }, ...requirements], provided };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const shown = (name: string): string => name.replaceAll(/[^A-Za-z0-9_./-]/g, '?').slice(0, 100);

/** What pages need that this Dockerfile does not build, as a reason. */
async function unbuiltAssets(files: RepositoryFiles, composer: Composer | undefined): Promise<string[]> {
  if (composer === undefined || !(await files.has('package.json'))) return [];
  // It is no part of what runs: one that cannot be read keeps no application of PHP from being built.
  const { scripts, dependencies, devDependencies } =
    Package.safeParse(parsed((await files.head('package.json')) ?? '')).data ?? {};
  if (!Object.hasOwn(scripts ?? {}, 'build')) return [];
  const usesVite = Object.hasOwn({ ...dependencies, ...devDependencies }, 'laravel-vite-plugin');
  if (usesVite && !(await files.has('public/build/manifest.json')))
    return [
      'package.json: its script build, which writes public/build for pages of Laravel that use vite, is not run. If there are such pages, commit public/build, or add a Dockerfile that runs it',
    ];
  return usesVite
    ? []
    : ['package.json: its script build is not run. Commit what it makes, or add a Dockerfile that runs it'];
}

/** Versions that official images are of, newest first. */
const versions = ['8.5', '8.4', '8.3', '8.2', '8.1', '8.0', '7.4', '7.3', '7.2', '7.1'];

/** The version of composer.json; of several, the newest that the locked packages admit, too. */
function versionOf(composer: Composer | undefined, requirements: readonly Requirement[]): string {
  const platform = pinned(composer?.config?.platform?.php ?? '');
  if (platform !== undefined && /^\d\.\d+$/.test(platform)) return platform;
  const ranges = requirements.map(({ require }) => require['php']).filter((it) => typeof it === 'string');
  const wanted = composer?.require['php'];
  const newest = typeof wanted === 'string' ? within(wanted, usual) : usual;
  const older = versions.slice(versions.indexOf(newest) + 1);
  return [newest, ...older].find((one) => ranges.every((range) => within(range, one) === one)) ?? newest;
}

/** The extensions that the image gets, and reasons that name those of locked packages which it does not get. */
function extensionsOf(
  requirements: readonly Requirement[],
  provided: ReadonlySet<string>,
  version: string,
): { extensions: string[]; missing: string[] } {
  const named = new Set<string>();
  const missing = new Map<string, string>();
  for (const { by, require } of requirements)
    for (const key of Object.keys(require)) {
      const name = key.startsWith('ext-') && !provided.has(key) ? key.slice(4).toLowerCase() : undefined;
      if (name === undefined || included.includes(name)) continue;
      if (isBuildable(name, version)) named.add(name);
      else if (by === 'composer.json')
        throw lacking(
          `${by} needs the extension ${shown(name).slice(0, 40)}, which this Dockerfile does not install: add a Dockerfile that installs it`,
        );
      else if (!missing.has(name) && missing.size < maxMissing)
        missing.set(
          name,
          `${by} needs the extension ${shown(name).slice(0, 40)}, which the image does not have: what uses it fails. Add a Dockerfile that installs it if the application does`,
        );
    }
  return { extensions: [...named].toSorted(), missing: [...missing.values()] };
}

function isBuildable(name: string, version: string): boolean {
  return buildable.includes(name) || (Object.hasOwn(libraries, name) && Number(version) >= librariesSince);
}
