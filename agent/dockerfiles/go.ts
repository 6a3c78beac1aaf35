import {
  argLines,
  copy,
  exec,
  from,
  header,
  homeLine,
  isPlain,
  lacking,
  portLines,
  run,
  user,
  type Language,
} from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';
import { pinned } from './version.ts';

const usual = '1.24';
/** Folders that programs read when they run, as far as they are not part of the program. */
const readFolders = ['templates', 'views', 'static', 'public', 'assets', 'web', 'migrations', 'locales'];
/** Packages that are nothing without C, which no program here is built with. */
const needC = /^(?:require )?[ \t]*(github\.com\/mattn\/go-sqlite3|gorm\.io\/driver\/sqlite) v[^/\n]*$/m;
const maxFolders = 100;
const maxFilesOfFolder = 50;

/** Programs of Go: one static file in an image without anything else. */
export const go: Language = async (files, settings) => {
  const module = await files.text('go.mod');
  if (module === undefined) return undefined;
  const there = await files.names('.');
  const version = pinned(/^(?:toolchain go|go )(\d{1,4}\.\d{1,4})/m.exec(module)?.[1] ?? '') ?? usual;
  const main = await mainPackage(files);
  const isLocal = /^(?:replace )?[ \t]*\S+(?: \S+)? => \.{1,2}\//m.test(module) || there.includes('go.work');
  const sums = there.includes('go.sum') ? ['go.sum'] : [];
  const read = readFolders.filter((name) => there.includes(`${name}/`));
  const caches = settings.cacheMounts ? ['/go/pkg/mod', '/root/.cache/go-build'] : [];
  const withoutC = needC.exec(module)?.[1];
  const needsDownload = sums.length > 0 && !isLocal && !there.includes('vendor/');
  return {
    language: 'go',
    reasons: [
      `go.mod: a program of Go ${version}`,
      main === '.' ? 'The package main is in the folder itself' : `The package main is in ${main}`,
      ...(read.length > 0 ? [`It may read ${read.join(', ')} when it runs: these folders go with it`] : []),
      ...(withoutC === undefined
        ? []
        : [
            `go.mod: ${withoutC} is built without C, so that it opens no database. Use a driver without C, or add a Dockerfile`,
          ]),
    ],
    lines: [
      ...header,
      from(`golang:${version}`, 'build'),
      'WORKDIR /app',
      'ENV CGO_ENABLED=0',
      ...(needsDownload
        ? [
            '# Modules first: this layer stays as long as their list does',
            copy(['go.mod', ...sums], './'),
            run([['go', 'mod', 'download']], caches),
          ]
        : []),
      ...argLines(settings),
      'COPY . .',
      run([['go', 'build', '-trimpath', '-ldflags=-s', '-o', '/out/app/program', main]], caches),
      '# What programs expect of a system: a folder for temporary files, and the time zones',
      'RUN mkdir -m 1777 /out/tmp && cp /usr/local/go/lib/time/zoneinfo.zip /out/',
      '',
      '# What runs: the program alone, no rights',
      'FROM scratch',
      'COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/',
      'COPY --from=build /out /',
      ...read.map((name) => `COPY ${name} /app/${name}`),
      'ENV ZONEINFO=/zoneinfo.zip',
      homeLine,
      'WORKDIR /app',
      ...portLines(settings.port),
      `USER ${user}`,
      exec('CMD', ['/app/program']),
      '',
    ],
    ignore: ['.git', '**/node_modules'],
  };
};

/** The folder of the only package main: `.` or one below `cmd`. */
async function mainPackage(files: RepositoryFiles): Promise<string> {
  if (await isMain(files, '.')) return '.';
  const found: string[] = [];
  for (const name of (await files.names('cmd')).filter((it) => it.endsWith('/')).slice(0, maxFolders)) {
    const folder = `cmd/${name.slice(0, -1)}`;
    if (isPlain(folder) && (await isMain(files, folder))) found.push(folder);
  }
  if ((await isMain(files, 'cmd')) && found.length === 0) found.push('cmd');
  const [only] = found;
  if (only !== undefined && found.length === 1) return `./${only}`;
  throw lacking(
    found.length === 0
      ? 'go.mod is there, but no package main in the folder itself or in a folder below cmd: add one, or a Dockerfile'
      : `there are several packages main, ${found.slice(0, 10).join(', ')}: add a Dockerfile that builds one of them`,
  );
}

async function isMain(files: RepositoryFiles, folder: string): Promise<boolean> {
  const names = (await files.names(folder)).filter((name) => name.endsWith('.go') && !name.endsWith('_test.go'));
  for (const name of names.slice(0, maxFilesOfFolder)) {
    const text = ((await files.head(folder === '.' ? name : `${folder}/${name}`)) ?? '').slice(0, 100_000);
    if (/^package main\b/m.test(text) && isBuilt(/^\/\/go:build ([^\n]*)/m.exec(text)?.[1] ?? '')) return true;
  }
  return false;
}

/** Tags that a build of a program here may have. */
const tag = /^(?:linux|unix|gc|amd64|arm64|go1\.\d+)$/;

/** Whether a build without tags of its own takes a file of that constraint. What has parentheses counts as taken. */
function isBuilt(constraint: string): boolean {
  if (constraint.trim() === '' || constraint.includes('(')) return true;
  const isMet = (word: string): boolean => (word.startsWith('!') ? !tag.test(word.slice(1)) : tag.test(word));
  return constraint.split('||').some((part) => part.split('&&').every((word) => isMet(word.trim())));
}
