import { argLines, copy, exec, from, header, isPlain, lacking, portLines, run, user, type Language } from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';
import { pinned } from './version.ts';

const usual = '1.24';
/** Folders that programs read when they run, as far as they are not part of the program. */
const readFolders = ['templates', 'views', 'static', 'public', 'assets', 'web', 'migrations', 'locales'];
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
  const needsDownload = sums.length > 0 && !isLocal && !there.includes('vendor/');
  return {
    language: 'go',
    reasons: [
      `go.mod: a program of Go ${version}`,
      main === '.' ? 'The package main is in the folder itself' : `The package main is in ${main}`,
      ...(read.length > 0 ? [`It may read ${read.join(', ')} when it runs: these folders go with it`] : []),
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
      run([['go', 'build', '-trimpath', '-ldflags=-s', '-o', '/out/program', main]], caches),
      '',
      '# What runs: the program alone, no rights',
      'FROM scratch',
      'COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/',
      'COPY --from=build /out/program /app/program',
      ...read.map((name) => `COPY ${name} /app/${name}`),
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
    const text = (await files.head(folder === '.' ? name : `${folder}/${name}`)) ?? '';
    if (/^package main\b/m.test(text.slice(0, 100_000)) && !/^\/\/go:build ignore/m.test(text.slice(0, 100_000)))
      return true;
  }
  return false;
}
