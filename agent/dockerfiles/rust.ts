import { z } from 'zod';
import {
  argLines,
  copy,
  debianPackages,
  exec,
  from,
  header,
  lacking,
  portLines,
  run,
  user,
  type Language,
} from './recipe.ts';
import { tomlIn, type RepositoryFiles } from './repository-files.ts';
import { pinned } from './version.ts';

const table = z.unknown().optional();
const Manifest = z.object({
  package: z
    .object({
      name: z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,100}$/),
      'default-run': z.string().optional(),
      autobins: z.unknown().optional(),
      build: z.unknown().optional(),
    })
    .optional(),
  bin: z.array(z.object({ name: z.string().optional(), path: z.string().optional() })).optional(),
  lib: table,
  bench: table,
  test: table,
  example: table,
  workspace: table,
  dependencies: table,
  'build-dependencies': table,
  'dev-dependencies': table,
  target: table,
  patch: table,
  replace: table,
});
type Manifest = z.infer<typeof Manifest>;

const Toolchain = z.object({ toolchain: z.object({ channel: z.string().max(100).optional() }).optional() });
/** Packages that link a library of the system when they are built, and the package of Debian that has it. */
const libraries: Readonly<Record<string, string>> = {
  'openssl-sys': 'libssl3',
  'pq-sys': 'libpq5',
  'mysqlclient-sys': 'libmariadb3',
  'libsqlite3-sys': 'libsqlite3-0',
};
const program = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,100}$/;

/** Programs of Rust. */
export const rust: Language = async (files, settings) => {
  const manifest = await tomlIn(files, 'Cargo.toml', Manifest);
  if (manifest === undefined) return undefined;
  if (manifest.package === undefined)
    throw lacking(
      'Cargo.toml is a workspace without a package of its own: add a Dockerfile that builds one of its members',
    );
  const there = await files.names('.');
  const name = await binary(files, manifest);
  const version = await channel(files);
  const isLocked = there.includes('Cargo.lock');
  const lock = (await files.head('Cargo.lock')) ?? '';
  const needed = Object.entries(libraries).flatMap(([name, library]) =>
    lock.includes(`name = "${name}"`) ? library : [],
  );
  const build = ['cargo', 'build', '--release', ...(isLocked ? ['--locked'] : [])];
  const caches = settings.cacheMounts ? ['/usr/local/cargo/registry'] : [];
  const listed = copy(['Cargo.toml', ...(isLocked ? ['Cargo.lock'] : [])], './');
  return {
    language: 'rust',
    reasons: [
      `Cargo.toml: a program of Rust ${version}, ${name}`,
      ...(isLocked
        ? []
        : ['There is no Cargo.lock, so that cargo decides the versions anew with each build. Commit it']),
      ...(needed.length > 0 ? [`Cargo.lock: its packages need ${needed.join(' and ')}`] : []),
    ],
    lines: [
      ...header,
      from(`rust:${version}-bookworm`, 'build'),
      'WORKDIR /app',
      ...((await isSimple(files, manifest, there))
        ? [
            '# Packages first, for an empty program: this layer stays as long as their list does',
            listed,
            `RUN mkdir src && echo 'fn main() {}' > src/main.rs && ${build.join(' ')} && rm -rf src`,
            ...argLines(settings),
            'COPY . .',
            `RUN touch src/main.rs && ${build.join(' ')}`,
          ]
        : [...argLines(settings), 'COPY . .', run([build], caches)]),
      run([['install', '-D', `target/release/${name}`, '/out/program']]),
      '',
      '# What runs: the program alone, no rights',
      from('debian:bookworm-slim'),
      ...debianPackages(needed),
      'COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/',
      'COPY --from=build /out/program /app/program',
      'WORKDIR /app',
      ...portLines(settings.port),
      `USER ${user}`,
      exec('CMD', ['/app/program']),
      '',
    ],
    ignore: ['.git', 'target'],
  };
};

async function binary(files: RepositoryFiles, { package: it, bin = [] }: Manifest): Promise<string> {
  const chosen = it?.['default-run'];
  const taken = new Set(bin.map(({ path }) => path?.replace(/^\.\//, '')));
  const found =
    it?.autobins === false
      ? []
      : [
          ...((await files.has('src/main.rs')) ? [{ name: it?.name ?? '', path: 'src/main.rs' }] : []),
          ...(await files.names('src/bin'))
            .filter((name) => name.endsWith('.rs'))
            .map((name) => ({ name: name.slice(0, -3), path: `src/bin/${name}` })),
        ];
  // Of a file that the manifest names, cargo infers no further program.
  const named = [...bin, ...found.filter(({ path }) => !taken.has(path))].flatMap(({ name }) => name ?? []);
  const all = [...new Set(named.filter((name) => program.test(name)))];
  const [only] = all;
  if (chosen !== undefined && program.test(chosen)) return chosen;
  if (only !== undefined && all.length === 1) return only;
  throw lacking(
    only === undefined
      ? 'Cargo.toml has no program: add src/main.rs, or a Dockerfile'
      : `Cargo.toml has several programs, ${all.slice(0, 10).join(', ')}: name one in default-run`,
  );
}

/** Whether its packages can be built before its files are there. */
async function isSimple(files: RepositoryFiles, it: Manifest, there: readonly string[]): Promise<boolean> {
  const namesFiles = [it.bin, it.lib, it.bench, it.test, it.example, it.package?.build, it.workspace].some(
    (one) => one !== undefined,
  );
  const usesPaths = [
    it.dependencies,
    it['build-dependencies'],
    it['dev-dependencies'],
    it.target,
    it.patch,
    it.replace,
  ].some(hasPath);
  const hasMore = there.includes('build.rs') || there.includes('.cargo/') || (await files.has('src/lib.rs'));
  const hasBins = (await files.names('src/bin')).length > 0;
  return !namesFiles && !usesPaths && !hasMore && !hasBins && (await files.has('src/main.rs'));
}

/** Whether a table, or one within it, has a `path`. */
function hasPath(table: unknown): boolean {
  return typeof table === 'object' && table !== null && ('path' in table || Object.values(table).some(hasPath));
}

async function channel(files: RepositoryFiles): Promise<string> {
  const { toolchain } = (await tomlIn(files, 'rust-toolchain.toml', Toolchain)) ?? {};
  const said = toolchain?.channel ?? (await files.text('rust-toolchain'))?.slice(0, 100).trim() ?? 'stable';
  if (/^(?:nightly|beta)/.test(said))
    throw lacking(`its toolchain is ${said.slice(0, 7)}, of which there is no official image: add a Dockerfile`);
  return pinned(said) ?? '1';
}
