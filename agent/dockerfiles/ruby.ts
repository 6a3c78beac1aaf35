import {
  argLines,
  copy,
  debianPackages,
  exec,
  from,
  header,
  homeLine,
  lacking,
  portLines,
  run,
  user,
  type DockerfileSettings,
  type Language,
} from './recipe.ts';
import type { RepositoryFiles } from './repository-files.ts';
import { procfileStart, shellStart, type Started } from './start.ts';
import { pinned } from './version.ts';

const usual = '3.4';
/** Libraries that gems load when they run, as packages of the base image. */
const libraries: Readonly<Record<string, string>> = {
  pg: 'libpq5',
  mysql2: 'libmariadb3',
  'ruby-vips': 'libvips42',
  nokogiri: '',
};

/**
 * Rails does not start while its pid file names a process. A kill leaves the file behind, and the container that starts
 * again mostly gives Rails the same pid as before.
 */
const railsEntrypoint = exec('ENTRYPOINT', ['sh', '-c', 'rm -f tmp/pids/server.pid && exec "$@"', 'sh']);

/** Applications of Ruby with a Gemfile: Rails, and others by Rack. */
export const ruby: Language = async (files, settings) => {
  const gemfile = await files.text('Gemfile');
  if (gemfile === undefined) return undefined;
  const lock = (await files.head('Gemfile.lock')) ?? '';
  if (lock === '') throw lacking('there is a Gemfile without Gemfile.lock: commit it');
  const gems = new Set([...lock.matchAll(/^ {4}([A-Za-z0-9_.-]{1,100}) \(/gm)].flatMap(([, name = '']) => name));
  const version = await rubyVersion(files, gemfile, lock);
  const saysVersion = await files.has('.ruby-version');
  const isRails = gems.has('rails') && (await files.has('config/application.rb'));
  const declared = await procfileStart(files);
  const start = typeof declared === 'object' ? declared : await startOf(files, gems, isRails);
  if (start === undefined && !settings.hasCommand)
    throw lacking(
      'it is not clear how this Ruby application starts: add the gem puma and config.ru, or a Procfile with the line web, or set start_command',
    );
  const needed = Object.entries(libraries).flatMap(([gem, name]) => (gems.has(gem) && name !== '' ? name : []));
  const hasOwnGems = /^PATH$/m.test(lock);
  const buildsAssets = isRails && (gems.has('sprockets-rails') || gems.has('propshaft'));
  return {
    language: 'ruby',
    reasons: [
      `Gemfile: an application of Ruby ${version}`,
      ...(typeof declared === 'string' ? [declared] : []),
      start?.reason ?? 'It starts by the start_command of the application',
      ...(needed.length > 0 ? [`Gemfile.lock: its gems need ${needed.join(' and ')}`] : []),
      ...(hasOwnGems
        ? ['Gemfile.lock: some gems are in the repository, so that all files are there before gems are installed']
        : []),
    ],
    lines: [
      ...header,
      from(`ruby:${version}`, 'build'),
      'ENV BUNDLE_DEPLOYMENT=1 BUNDLE_PATH=/gems BUNDLE_WITHOUT=development:test',
      'WORKDIR /app',
      ...gemLines(saysVersion, hasOwnGems, settings),
      // Rails before 7.1 knows no SECRET_KEY_BASE_DUMMY.
      ...(buildsAssets
        ? [
            'RUN SECRET_KEY_BASE_DUMMY=1 SECRET_KEY_BASE=unused RAILS_ENV=production bundle exec rails assets:precompile',
          ]
        : []),
      '',
      '# What runs: no rights, no files of root',
      from(`ruby:${version}-slim`),
      ...debianPackages(needed),
      'ENV BUNDLE_DEPLOYMENT=1 BUNDLE_PATH=/gems BUNDLE_WITHOUT=development:test',
      `ENV ${isRails ? 'RAILS_ENV=production RAILS_LOG_TO_STDOUT=1 RAILS_SERVE_STATIC_FILES=1' : 'RACK_ENV=production'}`,
      homeLine,
      'COPY --from=build /gems /gems',
      `COPY --from=build --chown=${user} /app /app`,
      'WORKDIR /app',
      ...portLines(settings.port),
      `USER ${user}`,
      ...(isRails ? [railsEntrypoint] : []),
      ...(start === undefined ? [] : [start.line]),
      '',
    ],
    ignore: ['.git', 'log/*', 'tmp/*', '**/node_modules', 'vendor/bundle'],
  };
};

/** The lines that install the gems, and copy all files. */
function gemLines(saysVersion: boolean, hasOwnGems: boolean, settings: DockerfileSettings): string[] {
  const install = run([['bundle', 'install']]);
  if (hasOwnGems) return [...argLines(settings), 'COPY . .', install];
  return [
    '# Gems first: this layer stays as long as their list does',
    copy(['Gemfile', 'Gemfile.lock', ...(saysVersion ? ['.ruby-version'] : [])], './'),
    install,
    ...argLines(settings),
    'COPY . .',
  ];
}

async function rubyVersion(files: RepositoryFiles, gemfile: string, lock: string): Promise<string> {
  const file = (await files.text('.ruby-version'))?.slice(0, 100);
  const required = exactIn(gemfile, file);
  if (required !== undefined) return required;
  const texts = [
    file,
    /^RUBY VERSION\n {3}ruby ([\d.]{1,20})/m.exec(lock)?.[1],
    /^ruby ["']~?>? ?([\d.]{1,20})["']/m.exec(gemfile)?.[1],
  ];
  return texts.map((text) => pinned(text ?? '')).find((it) => it !== undefined) ?? usual;
}

/** The version with all its numbers that Bundler asks for: it takes no other one. */
function exactIn(gemfile: string, file: string | undefined): string | undefined {
  const line = /^ruby[ (]+["'](\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)["']/m.exec(gemfile)?.[1];
  if (line !== undefined) return line.split('.').length === 2 ? `${line}.0` : line;
  const saysFile = /^ruby[ (].{0,40}["']\.ruby-version["']/m.test(gemfile);
  return saysFile ? /^(?:ruby-)?(\d{1,2}\.\d{1,2}\.\d{1,2})\s*$/.exec(file ?? '')?.[1] : undefined;
}

async function startOf(
  files: RepositoryFiles,
  gems: ReadonlySet<string>,
  isRails: boolean,
): Promise<Started | undefined> {
  if (isRails)
    return {
      line: shellStart('bundle exec rails server --binding 0.0.0.0 --port "${PORT:-3000}"'),
      reason: 'It is an application of Rails',
    };
  if (!gems.has('puma') || !(await files.has('config.ru'))) return undefined;
  return {
    line: shellStart('bundle exec puma --bind "tcp://0.0.0.0:${PORT:-3000}"'),
    reason: 'config.ru: it starts by puma, which it declares',
  };
}
