import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { generateDockerfile, type GeneratedDockerfile } from '../../../agent/dockerfiles/generate.ts';
import type { DockerfileSettings } from '../../../agent/dockerfiles/recipe.ts';
import { readDockerfile } from '../../../agent/tasks/dockerfile.ts';
import { ignoreFile } from '../../../agent/tasks/ignore-file.ts';
import { repositoryReader } from '../../../agent/tasks/repository-reader.ts';

type Files = Readonly<Record<string, string | { link: string }>>;

const usual: DockerfileSettings = {
  port: 3000,
  hasCommand: false,
  appType: 'web',
  buildArgs: [],
  buildSecrets: [],
  cacheMounts: false,
};

async function generated(files: Files, settings: Partial<DockerfileSettings> = {}): Promise<GeneratedDockerfile> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'setpoint-generate-')));
  try {
    for (const [name, content] of Object.entries(files)) {
      const path = join(folder, name);
      await mkdir(dirname(path), { recursive: true });
      await (typeof content === 'string' ? writeFile(path, content) : symlink(content.link, path));
    }
    return await generateDockerfile(repositoryReader(folder), { ...usual, ...settings });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function failure(files: Files, settings: Partial<DockerfileSettings> = {}): Promise<unknown> {
  return generated(files, settings).then(
    ({ text }) => Promise.reject(new Error(`It was generated:\n${text}`)),
    (error: unknown) => error,
  );
}

const json = (value: object): string => JSON.stringify(value);
const cmdOf = ({ text }: GeneratedDockerfile): string | undefined => /^CMD .*$/m.exec(text)?.[0];
const lock = json({ lockfileVersion: 3 });
const start = { start: 'node server.js' };

const repositories: Readonly<Record<string, { files: Files; settings?: Partial<DockerfileSettings> }>> = {
  'node-npm': {
    files: {
      'package.json': json({ scripts: { ...start, build: 'tsc' }, engines: { node: '>=20' } }),
      'package-lock.json': lock,
    },
    settings: { buildArgs: ['API_URL', 'BASE_REGISTRY'] },
  },
  'node-pnpm': { files: { 'package.json': json({ scripts: start }), 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" } },
  'node-yarn': { files: { 'package.json': json({ scripts: start }), 'yarn.lock': '# yarn lockfile v1\n' } },
  'node-yarn-berry': {
    files: {
      'package.json': json({ packageManager: 'yarn@4.5.0+sha224.abc', scripts: { ...start, build: 'tsc' } }),
      'yarn.lock': '__metadata:\n  version: 8\n',
      '.yarnrc.yml': 'enableTelemetry: false\n',
    },
  },
  'node-bun': { files: { 'package.json': json({ scripts: { start: 'bun run index.ts' } }), 'bun.lock': '{}' } },
  'node-site': {
    files: {
      'package.json': json({ scripts: { dev: 'vite', build: 'vite build' }, devDependencies: { vite: '6.0.0' } }),
      'package-lock.json': lock,
    },
  },
  'python-pip': {
    files: {
      'requirements.txt': 'Flask==3.0.0\ngunicorn==23.0.0\n',
      'app.py': 'from flask import Flask\napp = Flask(__name__)\n',
      '.python-version': '3.12.4\n',
    },
  },
  'python-uv': {
    files: {
      'pyproject.toml': '[project]\nname = "x"\nrequires-python = ">=3.11"\ndependencies = ["fastapi", "uvicorn"]\n',
      'uv.lock': '[[package]]\nname = "uvicorn"\n',
      'main.py': 'from fastapi import FastAPI\napp: FastAPI = FastAPI()\n',
    },
  },
  'python-poetry': {
    files: {
      'pyproject.toml':
        '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\npython = "~3.11"\ndjango = "*"\ngunicorn = "*"\n',
      'poetry.lock': '',
      'manage.py': '',
      'shop/wsgi.py': '',
    },
  },
  go: {
    files: {
      'go.mod': 'module example.com/x\n\ngo 1.23.1\n',
      'go.sum': '',
      'cmd/server/main.go': 'package main\n\nfunc main() {}\n',
      'cmd/server/main_test.go': 'package main\n',
      'templates/index.html': '',
    },
    settings: { cacheMounts: false },
  },
  rust: {
    files: {
      'Cargo.toml': '[package]\nname = "shop"\nversion = "1.0.0"\n[dependencies]\nserde = "1"\n',
      'Cargo.lock': '',
      'src/main.rs': 'fn main() {}',
      'rust-toolchain.toml': '[toolchain]\nchannel = "1.79.0"\n',
    },
  },
  'java-maven': {
    files: {
      'pom.xml':
        '<project><properties><java.version>17</java.version></properties><artifactId>spring-boot-maven-plugin</artifactId></project>',
    },
  },
  'java-gradle': {
    files: {
      'build.gradle.kts':
        'plugins { id("org.springframework.boot") }\njava { toolchain { languageVersion = JavaLanguageVersion.of(21) } }\n',
      'gradle/wrapper/gradle-wrapper.properties':
        'distributionUrl=https\\://services.gradle.org/distributions/gradle-8.5-bin.zip\n',
    },
  },
  'ruby-rails': {
    files: {
      Gemfile: 'source "https://rubygems.org"\ngem "rails"\n',
      'Gemfile.lock': 'GEM\n  specs:\n    pg (1.5.0)\n    propshaft (1.0.0)\n    puma (6.4.0)\n    rails (8.0.0)\n',
      '.ruby-version': 'ruby-3.3.5\n',
      'config/application.rb': '',
      'config.ru': '',
    },
  },
  php: {
    files: {
      'composer.json': json({ require: { php: '^8.2', 'ext-pdo_mysql': '*', 'ext-json': '*' } }),
      'composer.lock': '{}',
      'public/index.php': '<?php echo 1;',
    },
  },
  'php-symfony': {
    files: {
      'composer.json': json({ require: { php: '>=8.2', 'symfony/runtime': '7.3.*' } }),
      'composer.lock': '{}',
      'public/index.php': '<?php',
      '.env': 'APP_ENV=dev',
    },
  },
  static: { files: { 'index.html': '<h1>Hello</h1>' } },
};

describe('of a repository that declares what it is', () => {
  test.each(Object.entries(repositories))('the Dockerfile is generated: %s', async (name, { files, settings }) => {
    const made = await generated(files, settings);
    await expect(made.text).toMatchFileSnapshot(`golden/${name}.Dockerfile`);
    // The judge of all Dockerfiles reads it, and its base images are of the registry that is chosen.
    const { images } = readDockerfile(Buffer.from(made.text), {});
    expect(images.map(({ reference }) => reference).filter((one) => !/^[a-z-]+:[\w.-]+$/.test(one))).toEqual([]);
    const moved = readDockerfile(Buffer.from(made.text), { BASE_REGISTRY: 'mirror.test:5000/hub' });
    expect(moved.images.every(({ reference }) => reference.startsWith('mirror.test:5000/hub/'))).toBe(true);
    expect(made.text).toMatch(/^USER 10001:10001$/m);
    expect(made.text).toMatch(/^CMD \[/m);
    expect(made.reasons.length).toBeGreaterThan(0);
    expect(ignoreFile(made.ignore.join('\n')).steps).toBe(0);
    // Nothing else may be in it.
    expect(made.text).toMatch(/^[\n\x20-\x7e]*$/);
  });

  test('steps keep caches where the builder can', async () => {
    const { files = {} } = repositories['node-npm'] ?? {};
    expect((await generated(files, { cacheMounts: true })).text).toContain(
      'RUN --mount=type=cache,target=/root/.npm npm ci',
    );
  });
});

describe('a start that needs devDependencies', () => {
  const nest = {
    scripts: {
      build: 'nest build',
      start: 'nest start',
      'start:dev': 'nest start --watch',
      'start:prod': 'node dist/main',
    },
    dependencies: { '@nestjs/core': '11' },
    devDependencies: { '@nestjs/cli': '11', 'ts-node': '10', typescript: '5' },
  };

  test('leaves its place to the one for production: NestJS', async () => {
    const made = await generated({ 'package.json': json(nest), 'package-lock.json': lock });
    expect(cmdOf(made)).toBe('CMD ["node", "dist/main"]');
    expect(made.text).toContain('RUN npm prune');
    expect(made.reasons.join()).toContain('start:prod, as start needs @nestjs/cli');
  });

  test.each<[string, object, string]>([
    ['a program', { scripts: { start: 'tsx src/main.ts' }, devDependencies: { tsx: '4' } }, 'tsx'],
    [
      'a program before the program',
      { scripts: { start: 'NODE_ENV=production cross-env X=1 node a.js' }, devDependencies: { 'cross-env': '7' } },
      'cross-env',
    ],
    [
      'a module',
      { scripts: { start: 'node -r ts-node/register a.ts' }, devDependencies: { 'ts-node': '10' } },
      'ts-node',
    ],
    ['a loader', { scripts: { start: 'node --import=tsx a.ts' }, devDependencies: { tsx: '4' } }, 'tsx'],
    [
      'another script',
      { scripts: { build: 'tsc', start: 'npm run build && node dist/a.js' }, devDependencies: { typescript: '5' } },
      'typescript',
    ],
    [
      'the script before it',
      {
        scripts: { build: 'tsc', prestart: 'npm run build', start: 'node a.js' },
        devDependencies: { typescript: '5' },
      },
      'typescript',
    ],
    ['no build for another', { ...nest, scripts: { ...nest.scripts, build: undefined } }, '@nestjs/cli'],
  ])('has them: %s', async (_, content, name) => {
    const made = await generated({ 'package.json': json(content), 'package-lock.json': lock });
    expect(made.text.match(/^RUN npm (?!run build).*$/gm)).toEqual(['RUN npm ci']);
    expect(made.reasons.join()).toContain(`as ${name},`);
  });

  test('has them by the line web of a Procfile, too', async () => {
    const made = await generated({ 'package.json': json(nest), 'package-lock.json': lock, Procfile: 'web: npm start' });
    expect(cmdOf(made)).toBe('CMD ["npm", "start"]');
    expect(made.text).not.toContain('prune');
  });

  test('by scripts that call each other is found', async () => {
    const scripts = { start: 'npm run a', a: 'npm run b', b: 'npm run a; npm start' };
    const made = await generated({ 'package.json': json({ scripts, devDependencies: { tsx: '4' } }) });
    expect(made.text).toContain('RUN npm install --omit=dev');
  });
});

describe('a script of the package that runs when packages are installed', () => {
  const hook = (script: string): string =>
    json({ scripts: { ...start, [script]: 'husky' }, devDependencies: { husky: '9' } });
  const managers: Readonly<Record<string, Files>> = {
    npm: { 'package-lock.json': lock },
    pnpm: { 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" },
    yarn: { 'yarn.lock': '# yarn lockfile v1\n' },
    berry: { 'yarn.lock': '__metadata:\n  version: 8\n' },
    bun: { 'bun.lock': '{}' },
  };

  const both = ['prepare', 'postinstall'];
  test.each<[string, string[], string, string | undefined]>([
    ['npm', both, 'npm ci', 'npm prune --omit=dev --ignore-scripts'],
    ['pnpm', both, 'pnpm install --frozen-lockfile', 'pnpm prune --prod --config.ignore-scripts=true'],
    [
      'yarn',
      both,
      'yarn install --frozen-lockfile',
      'yarn install --production --frozen-lockfile --ignore-scripts --prefer-offline',
    ],
    ['berry', ['prepare'], 'yarn install --immutable', 'yarn workspaces focus --all --production'],
    ['berry', ['postinstall'], 'yarn install --immutable', undefined],
    ['bun', both, 'bun install --frozen-lockfile', undefined],
  ])('has what it needs: %s, %j', async (manager, scripts, install, prune) => {
    for (const script of scripts) {
      const { text, reasons } = await generated({ 'package.json': hook(script), ...managers[manager] });
      const commands = [...text.matchAll(/^RUN (.*)$/gm)].map(([, command]) => command);
      expect(commands.filter((it) => it?.includes('--global') !== true)).toEqual([
        install,
        ...(prune === undefined ? [] : [prune]),
      ]);
      expect(reasons.join().includes('devDependencies stay')).toBe(prune === undefined);
    }
  });

  test('is not started by the removal after a build', async () => {
    const made = await generated({
      'package.json': json({ scripts: { ...start, build: 'tsc', prepare: 'husky' } }),
      ...managers['pnpm'],
    });
    expect(made.text).toContain(
      'RUN pnpm run build\n\n# What only the build needs goes\nRUN pnpm prune --prod --config.ignore-scripts=true\n',
    );
  });
});

describe('a package.json', () => {
  const pages = json({
    scripts: { build: 'vite build', dev: 'vite' },
    devDependencies: { vite: '7' },
    main: 'index.js',
  });
  const flask: Files = { 'requirements.txt': 'flask\ngunicorn', 'app.py': 'app = Flask(__name__)\n' };
  const django: Files = { 'requirements.txt': 'django\ngunicorn', 'manage.py': '', 'shop/wsgi.py': '' };
  const project = '[project]\nname = "x"\ndependencies = ["flask", "gunicorn"]\n';

  test.each<[string, Files]>([
    ['Django', { ...django, 'package.json': json({ scripts: { start: 'webpack --watch' } }) }],
    ['Flask', { ...flask, 'package.json': pages }],
    ['Flask with a server for development', { ...flask, 'package.json': json({ scripts: { start: 'vite' } }) }],
    ['a project with a lock', { ...flask, 'pyproject.toml': project, 'uv.lock': '', 'package.json': pages }],
    ['a line web', { ...flask, 'package.json': json({ scripts: start }), Procfile: 'web: gunicorn app:app' }],
  ])('for the pages of an application of Python leaves it what it is: %s', async (_, files) => {
    const made = await generated(files);
    expect([made.language, cmdOf(made)]).toEqual(['python', expect.stringContaining('gunicorn')]);
    expect(made.reasons.join()).toContain('package.json is not used');
  });

  test.each<[string, Files]>([
    ['a script start', { ...flask, 'package.json': json({ scripts: start }) }],
    ['a server', { 'requirements.txt': '', 'package.json': json({ main: 'a.js' }), 'a.js': '' }],
    ['a line web', { ...django, 'package.json': json({ scripts: start }), Procfile: 'web: npm start' }],
    ['a site beside settings of tools', { 'pyproject.toml': '[tool.ruff]\n', 'package.json': pages }],
    ['a site beside tools of Python', { 'requirements.txt': 'mkdocs', 'package.json': pages }],
    ['a site beside a script of Python', { 'requirements.txt': 'mkdocs', 'main.py': '', 'package.json': pages }],
    ['a site beside Flask without a server', { ...flask, 'requirements.txt': 'flask', 'package.json': pages }],
    ['a line web without Python', { 'package.json': json({ scripts: start }), Procfile: 'web: gunicorn a' }],
  ])('of an application of Node counts beside Python: %s', async (_, files) => {
    expect((await generated(files)).language).toBe('node');
  });

  test.each<[string, Files, string]>([
    ['Node', { 'requirements.txt': 'ruff' }, 'node'],
    ['Python that declares a server', flask, 'python'],
  ])('that starts no server is with a start command an application of %s', async (_, files, language) => {
    const built = { 'package.json': json({ scripts: { build: 'tsc' } }), ...files };
    expect((await generated(built, { hasCommand: true })).language).toBe(language);
  });

  test.each<[string, Files, string]>([
    ['of tools', { 'package.json': json({ scripts: { dev: 'x' }, devDependencies: { prettier: '3' } }) }, '. /srv'],
    ['of a program', { 'package.json': json({ scripts: start }), 'server.js': '' }, '. /srv'],
    ['of a site', { 'package.json': pages }, '--from=build /app/dist /srv'],
    ['of a site beside Python', { ...flask, 'package.json': pages }, '--from=build /app/dist /srv'],
    ['beside Go', { 'go.mod': '', 'main.go': 'package main', 'package.json': '{}' }, '. /srv'],
  ])('does not keep a static application from being served: %s', async (_, files, copied) => {
    const made = await generated({ 'index.html': '', ...files }, { appType: 'static' });
    expect(made.text).toContain(`\nCOPY ${copied}\n`);
    expect(made.text).toContain('CMD ["caddy"');
    expect(made.reasons.join()).toContain(copied.startsWith('.') ? 'no script of package.json is run' : 'vite');
  });
});

describe('private packages of Node', () => {
  const files: Files = { 'package.json': json({ scripts: { ...start, build: 'tsc' } }), 'package-lock.json': lock };

  test('are installed with the settings that are a build secret', async () => {
    const made = await generated(files, { buildSecrets: ['npmrc', 'other'], cacheMounts: true });
    expect(made.text).toContain(
      'RUN --mount=type=cache,target=/root/.npm --mount=type=secret,id=npmrc,target=/root/.npmrc npm ci\n',
    );
    expect(made.text).toContain('RUN --mount=type=secret,id=npmrc,target=/root/.npmrc npm prune');
    expect(made.reasons.join('\n')).toMatch(/No step mounts the build secret other: .*npmrc/);
    expect(made.reasons.join('\n')).not.toMatch(/build secret npmrc/);
  });

  test('are not said to be by a manager that reads other settings', async () => {
    const berry = { 'package.json': json({ scripts: start }), 'yarn.lock': '__metadata:\n  version: 8\n' };
    const made = await generated(berry, { buildSecrets: ['npmrc'] });
    expect(made.text).not.toContain('type=secret');
    expect(made.reasons.join('\n')).toContain('No step mounts the build secret npmrc:');
  });

  test('are installed with the arguments that copied settings name', async () => {
    const npmrc = '//npm.test/:_authToken=${NPM_TOKEN}\n';
    const { text } = await generated({ ...files, '.npmrc': npmrc }, { buildArgs: ['API_URL', 'NPM_TOKEN'] });
    expect(text).toMatch(/^ARG NPM_TOKEN\nRUN npm ci\nARG API_URL\nCOPY/m);
  });

  test('are installed with the arguments that are settings of the manager', async () => {
    const { text } = await generated(files, { buildArgs: ['API_URL', 'NPM_CONFIG_REGISTRY'] });
    expect(text).toMatch(/^ARG NPM_CONFIG_REGISTRY\nRUN npm ci\nARG API_URL\nCOPY/m);
  });
});

describe('private packages of Python', () => {
  const pip: Files = { 'requirements.txt': 'x', 'main.py': '' };
  test.each<[string, Files, string, string]>([
    ['pip', pip, 'pip.conf', 'target=/root/.config/pip/pip.conf /venv/bin/pip install'],
    ['pip', pip, 'netrc', 'target=/root/.netrc /venv/bin/pip install'],
    ['uv', { 'pyproject.toml': '[project]\nname = "x"\n', 'uv.lock': '', 'main.py': '' }, 'netrc', 'uv sync'],
    ['poetry', { 'pyproject.toml': '[tool.poetry]\n', 'poetry.lock': '', 'main.py': '' }, 'netrc', 'poetry install'],
  ])('are installed with the settings that are a build secret: %s by %4$s', async (_, files, id, command) => {
    const made = await generated(files, { buildSecrets: [id] });
    expect(made.text).toMatch(new RegExp(`^RUN --mount=type=secret,id=${id.replace('.', '[.]')},.*${command}`, 'm'));
    expect(made.reasons.join('\n')).not.toContain('build secret');
  });

  test.each<[string, Files, string]>([
    ['pip reads', pip, 'PIP_INDEX_URL'],
    ['requirements.txt names', { ...pip, 'requirements.txt': '--index-url https://x:${TOKEN}@pip.test/' }, 'TOKEN'],
    ['uv reads', { 'pyproject.toml': '[project]\nname = "x"\n', 'uv.lock': '', 'main.py': '' }, 'UV_INDEX_URL'],
    ['poetry reads', { 'pyproject.toml': '[tool.poetry]\n', 'main.py': '' }, 'POETRY_HTTP_BASIC_X_PASSWORD'],
  ])('are installed with the arguments that %s', async (_, files, name) => {
    const { text } = await generated(files, { buildArgs: ['A', name] });
    expect(text).toMatch(new RegExp(`^ARG ${name}$(?:\\n.*)*\\nRUN .*(?:-r requirements|sync|poetry install)`, 'm'));
    expect(text).not.toMatch(/^ARG A$(?:\n.*)*\nRUN .*(?:-r requirements|sync|poetry install)/m);
  });
});

describe('a framework of Node', () => {
  const built = { dev: 'vite dev', build: 'vite build', preview: 'vite preview' };
  const kit = { '@sveltejs/kit': '2', '@sveltejs/vite-plugin-svelte': '6', svelte: '5', vite: '7' };

  test.each([
    ['by itself', { build: 'astro build', start: 'astro dev' }],
    ['by its script', { build: 'astro build', start: 'node ./dist/server/entry.mjs' }],
  ])('that would listen to its own container alone listens to all: Astro %s', async (_, scripts) => {
    const made = await generated({
      'package.json': json({ scripts, dependencies: { astro: '5', '@astrojs/node': '9' } }),
    });
    expect(made.text.slice(made.text.indexOf('# What runs'))).toContain('\nENV HOST=0.0.0.0\n');
    expect(cmdOf(made)).toMatch(/"node", "(?:\.\/)?dist\/server\/entry\.mjs"/);
    expect(made.reasons.join()).toContain('@astrojs/node');
  });

  test.each<[string, Record<string, string>, string]>([
    ['SvelteKit', { ...kit, '@sveltejs/adapter-node': '5' }, 'CMD ["node", "build"]'],
    ['Nuxt', { nuxt: '4' }, 'CMD ["node", ".output/server/index.mjs"]'],
  ])('whose output has its packages is found among those for development: %s', async (_, devDependencies, cmd) => {
    const made = await generated({ 'package.json': json({ type: 'module', scripts: built, devDependencies }) });
    expect(cmdOf(made)).toBe(cmd);
    expect(made.text).not.toContain('HOST');
  });

  test('SvelteKit with an adapter for files is a site', async () => {
    const devDependencies = { ...kit, '@sveltejs/adapter-static': '3' };
    const { text } = await generated({ 'package.json': json({ scripts: built, devDependencies }) });
    expect(text).toContain('COPY --from=build /app/build /srv');
  });

  test.each(['web', 'static'])('of which it is not known what it writes is refused: SvelteKit, %s', async (appType) => {
    const devDependencies = { ...kit, '@sveltejs/adapter-auto': '7' };
    const error = await failure({ 'package.json': json({ scripts: built, devDependencies }) }, { appType });
    expect(error).toMatchObject({
      code: 'dockerfile_not_found',
      message: expect.stringMatching(/@sveltejs\/adapter-node.*@sveltejs\/adapter-static/),
    });
  });
});

test('a byte order mark before what a file declares is none of it', async () => {
  const mark = '\uFEFF';
  const node = await generated({ 'package.json': `${mark}${json({ scripts: start })}`, '.nvmrc': `${mark}lts/iron` });
  expect(node.text).toContain('/node:20-slim');
  const python = await generated({
    'pyproject.toml': `${mark}[project]\nname = "x"\nrequires-python = "<3.12"\n`,
    Procfile: `${mark}web: python a.py`,
  });
  expect([python.text, cmdOf(python)]).toEqual([
    expect.stringContaining('/python:3.11-slim'),
    'CMD ["python", "a.py"]',
  ]);
});

describe('the start', () => {
  const withScript = (script: string, more: Files = {}): Promise<GeneratedDockerfile> =>
    generated({
      'package.json': json({ scripts: { start: script }, dependencies: { tsx: '4' } }),
      'package-lock.json': lock,
      ...more,
    });

  test.each([
    [
      'a plain command of node is started without a shell',
      'node --enable-source-maps dist/main.js',
      'CMD ["node", "--enable-source-maps", "dist/main.js"]',
    ],
    ['any other script by its manager', 'tsx src/main.ts', 'CMD ["npm", "run", "start"]'],
    [
      'a script with characters of a shell never stands in the Dockerfile',
      'node x; rm -rf / $(id) `id` > y',
      'CMD ["npm", "run", "start"]',
    ],
  ])('%s', async (_, script, cmd) => expect(cmdOf(await withScript(script))).toBe(cmd));

  test.each([
    ['web: gunicorn app:server', 'CMD ["gunicorn", "app:server"]'],
    ['web: uvicorn app:a --port $PORT', 'CMD ["sh", "-c", "exec uvicorn app:a --port \\"$PORT\\""]'],
    ['web: gunicorn -b 0:${PORT} app:a', 'CMD ["sh", "-c", "exec gunicorn -b \\"0:${PORT}\\" app:a"]'],
    [
      'release: x\nweb: uvicorn app:a --port ${PORT:-80}',
      'CMD ["sh", "-c", "exec uvicorn app:a --port \\"${PORT:-80}\\""]',
    ],
  ])('the line web of a Procfile counts: %s', async (Procfile, cmd) =>
    expect(cmdOf(await generated({ 'requirements.txt': '', Procfile }))).toBe(cmd),
  );

  test('a line web that needs a shell is not used, and that is said', async () => {
    const made = await generated({ 'main.py': '', Procfile: 'web: a && b' });
    expect(cmdOf(made)).toBe('CMD ["python", "main.py"]');
    expect(made.reasons.join()).toContain('needs a shell');
  });

  test.each(['bundle exec rails server -p $PORT', 'bin/rails s'])(
    'Rails forgets the pid of the process before, also with the line web: %s',
    async (web) => {
      const files = { ...repositories['ruby-rails']?.files, Procfile: `web: ${web}\n` };
      expect((await generated(files)).text).toContain(
        'ENTRYPOINT ["sh", "-c", "rm -f tmp/pids/server.pid && exec \\"$@\\"", "sh"]\nCMD [',
      );
    },
  );

  test('gems of the repository are there before they are installed', async () => {
    const Gemfile = 'gem "shop", path: "engines/shop"\n';
    const made = await generated(
      { Gemfile, 'Gemfile.lock': 'PATH\n  remote: engines/shop\n  specs:\n    shop (1.0.0)\n' },
      { hasCommand: true },
    );
    expect(made.text).toContain('COPY . .\nRUN bundle install\n');
    expect(made.reasons.join()).toContain('some gems are in the repository');
  });

  test('with a start command of the application none is needed', async () => {
    const made = await generated({ 'package.json': '{}' }, { hasCommand: true });
    expect(cmdOf(made)).toBeUndefined();
  });

  test('a server for development serves nobody: the site is built and served', async () => {
    const files = {
      'package.json': json({
        scripts: { start: 'react-scripts start', build: 'react-scripts build' },
        dependencies: { 'react-scripts': '5' },
      }),
    };
    expect((await generated(files)).text).toContain('COPY --from=build /app/build /srv');
  });
});

describe('Go', () => {
  const mod = { 'go.mod': 'module x\n', 'cmd/shop/main.go': 'package main' };

  test.each([
    ['ignore', './cmd/shop'],
    ['mage', './cmd/shop'],
    ['tools && linux', './cmd/shop'],
    ['windows || darwin', './cmd/shop'],
    ['!linux', './cmd/shop'],
    ['linux', '.'],
    ['!windows', '.'],
    ['darwin || linux && go1.20', '.'],
    ['(linux || darwin) && !cgo', '.'],
  ])('by a file with the constraint %s is built from %s', async (constraint, folder) => {
    const { text } = await generated({ ...mod, 'main.go': `//go:build ${constraint}\n\npackage main\n` });
    expect(text).toContain(`/out/app/program ${folder}\n`);
  });

  test.each([
    ['require github.com/mattn/go-sqlite3 v1.14.22', true],
    ['require (\n\tgorm.io/driver/sqlite v1.5.5\n)', true],
    ['require (\n\tgithub.com/mattn/go-sqlite3 v1.14.22 // indirect\n)', false],
  ])('says of a package that needs C that it does not work: %j', async (line, isSaid) => {
    const { reasons } = await generated({ ...mod, 'go.mod': `module x\n${line}\n` });
    expect(reasons.join().includes('without C')).toBe(isSaid);
  });
});

describe('Rust', () => {
  const main = '[package]\nname = "shop"\nversion = "1.0.0"\n';
  const emptyProgram = "echo 'fn main() {}'";

  test.each([
    '[[bench]]\nname = "x"\nharness = false',
    '[[test]]\nname = "x"',
    '[[example]]\nname = "x"',
    'build = "make.rs"',
    '[dev-dependencies]\nx = { path = "x" }',
    '[build-dependencies.x]\npath = "x"',
    "[target.'cfg(unix)'.dependencies]\nx = { path = 'x' }",
    '[patch.crates-io]\nx = { path = "x" }',
  ])('is built with all files if its manifest names some: %s', async (more) => {
    const { text } = await generated({ 'Cargo.toml': `${main}${more}\n`, 'src/main.rs': '' });
    expect(text).not.toContain(emptyProgram);
  });

  test('is built for an empty program first if it names none', async () => {
    const more = '[dev-dependencies]\nx = "1"\n[patch.crates-io]\nx = { git = "https://x.test/x" }\n';
    expect((await generated({ 'Cargo.toml': main + more, 'src/main.rs': '' })).text).toContain(emptyProgram);
  });

  test.each<[string, string, Files]>([
    ['server', '[[bin]]\nname = "server"\npath = "src/main.rs"', {}],
    [
      'server',
      '[[bin]]\nname = "server"\npath = "./src/bin/s.rs"',
      { 'src/bin/s.rs': '', 'src/main.rs': { link: 'x' } },
    ],
    ['server', 'autobins = false\n[[bin]]\nname = "server"\npath = "src/server.rs"', { 'src/bin/other.rs': '' }],
  ])('has the program %s by %j', async (name, more, files) => {
    const { text } = await generated({ 'Cargo.toml': `${main}${more}\n`, 'src/main.rs': '', ...files });
    expect(text).toContain(`target/release/${name} `);
  });

  test('has the libraries that its packages link', async () => {
    const lock = '[[package]]\nname = "pq-sys"\n[[package]]\nname = "openssl-sys"\n';
    const made = await generated({ 'Cargo.toml': main, 'Cargo.lock': lock, 'src/main.rs': '' });
    expect(made.text).toContain('--no-install-recommends libssl3 libpq5 ');
    expect(made.reasons.join()).toContain('its packages need libssl3 and libpq5');
  });
});

describe('PHP', () => {
  const composer = { 'composer.json': json({ require: { 'ext-bcmath': '*' } }), 'index.php': '' };

  test('has the extensions of locked packages, but for those that another package stands for', async () => {
    const packages = [
      { name: 'a/b', require: { 'ext-pcntl': '*', 'ext-mcrypt': '*', 'ext-json': '*' } },
      { name: 'a/c', provide: { 'ext-mcrypt': '1' } },
    ];
    const development = [{ name: 'a/d', require: { 'ext-xdebug': '*' } }];
    const locked = { 'composer.lock': json({ packages, 'packages-dev': development }) };
    const { text } = await generated({ ...composer, ...locked });
    expect(text).toContain('RUN docker-php-ext-install bcmath pcntl\n');
  });

  test('with a lock that is too long says what is not looked at', async () => {
    const { reasons } = await generated({ ...composer, 'composer.lock': `{"x":"${'x'.repeat(1_200_000)}"}` });
    expect(reasons.join()).toContain('composer.lock is too long');
  });

  test('with a script build says that it is not run', async () => {
    const { reasons } = await generated({ ...composer, 'package.json': json({ scripts: { build: 'encore' } }) });
    expect(reasons.join()).toContain('its script build is not run');
  });

  test('of Laravel is built also if what vite writes for its pages is not there, and that is said', async () => {
    const files: Files = {
      'composer.json': json({ require: { 'laravel/framework': '^12' } }),
      'package.json': json({ scripts: { build: 'vite build' }, devDependencies: { 'laravel-vite-plugin': '2' } }),
      'public/index.php': '',
    };
    expect((await generated(files)).reasons.join()).toContain('commit public/build');
    const withPages = await generated({ ...files, 'public/build/manifest.json': '{}' });
    expect(withPages.reasons.join()).not.toContain('public/build');
  });

  test.each([['{'], ['[]'], [' '.repeat(2 * 1024 * 1024)]])(
    'is built beside a package.json that cannot be read',
    async (text) => {
      expect((await generated({ ...composer, 'package.json': text })).language).toBe('php');
    },
  );

  test('has the libraries of the extensions that need some', async () => {
    const packages = [{ name: 'a/b', require: { 'ext-gd': '*', 'ext-zip': '*' } }];
    const { text, reasons } = await generated({
      'composer.json': json({ require: { 'ext-intl': '*' } }),
      'composer.lock': json({ packages }),
      'index.php': '',
    });
    expect(text.match(/^RUN .*(?:apt-get|docker-php).*$/gm)).toEqual([
      'RUN apt-get update && apt-get install --yes --no-install-recommends libfreetype-dev libjpeg62-turbo-dev libpng-dev libicu-dev libzip-dev && rm -rf /var/lib/apt/lists/*',
      'RUN docker-php-ext-configure gd --with-freetype --with-jpeg',
      'RUN docker-php-ext-install gd intl zip',
    ]);
    expect(reasons.join()).toContain('need the extensions gd, intl, zip');
  });

  test.each([
    ['^8.2', 'ext-imagick'],
    ['~7.4.0', 'ext-intl'],
  ])('for %s is built without an extension that a locked package alone needs: %s', async (php, extension) => {
    const packages = [
      { name: 'a/b', require: { [extension]: '*' } },
      { name: 'a/c', require: { [extension]: '*' } },
    ];
    const { text, reasons } = await generated({
      'composer.json': json({ require: { php } }),
      'composer.lock': json({ packages }),
      'index.php': '',
    });
    expect(text).not.toMatch(/apt-get|docker-php-ext/);
    expect(reasons.filter((one) => one.includes(`extension ${extension.slice(4)}`))).toEqual([
      expect.stringContaining('the package a/b'),
    ]);
  });

  test('of hostile locked packages names a few extensions alone', async () => {
    const require = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`ext-x${n}`, '*']));
    const locked = json({ packages: [{ name: 'a/b', require }] });
    expect((await generated({ ...composer, 'composer.lock': locked })).reasons.length).toBeLessThan(20);
  });
});

test.each([
  ['of Symfony goes with it', { 'symfony/dotenv': '7' }, false, 'variables of the application come before'],
  ['of others stays out', { 'laravel/framework': '12' }, true, '.env stays out'],
])('the .env %s', async (_, require, isIgnored, reason) => {
  const made = await generated({ 'composer.json': json({ require }), 'public/index.php': '', '.env': 'A=1' });
  expect(made.ignore.includes('.env')).toBe(isIgnored);
  expect(made.ignore).toContain('.env.local');
  expect(made.reasons.join()).toContain(reason);
});

test('a lock file may be larger than what else is read', async () => {
  const lockfile = `lockfileVersion: '6.0'\n${'# x\n'.repeat(600_000)}`;
  const made = await generated({ 'package.json': json({ scripts: start }), 'pnpm-lock.yaml': lockfile });
  expect(made.text).toContain('pnpm@8');
});

describe('Gradle', () => {
  const catalogue = {
    'gradle/libs.versions.toml': [
      '[plugins]',
      'spring-boot = { id = "org.springframework.boot", version.ref = "boot" }',
      'ktor_server = { id = "io.ktor.plugin", version = "3.3.0" }',
      'shadow = "com.gradleup.shadow:9.0.0"',
    ].join('\n'),
  };
  test.each<[string, Files, string]>([
    ['Spring Boot', { 'build.gradle.kts': 'alias(libs.plugins.spring.boot)', ...catalogue }, 'bootJar'],
    ['Spring Boot, as Groovy has it', { 'build.gradle': 'alias libs.plugins.spring.boot', ...catalogue }, 'bootJar'],
    ['Ktor', { 'build.gradle.kts': 'alias(libs.plugins.ktor.server)', ...catalogue }, 'buildFatJar'],
    ['Ktor by its id', { 'build.gradle.kts': 'id("io.ktor.plugin") version "3.3.0"' }, 'buildFatJar'],
    ['Shadow', { 'build.gradle': 'alias(libs.plugins.shadow)', ...catalogue }, 'shadowJar'],
    [
      'Spring Boot with subprojects beside it',
      { 'build.gradle': "id 'org.springframework.boot'", 'settings.gradle': "include 'lib'" },
      'bootJar',
    ],
  ])('builds the jar of its plugin, also by the version catalogue: %s', async (_, files, task) => {
    expect((await generated(files)).text).toContain(`RUN gradle --no-daemon ${task}\n`);
  });
});

test.each<[string, Files, string]>([
  ['Node', { 'package.json': json({ scripts: start }) }, 'node'],
  ['PHP', { 'index.php': '' }, 'php'],
  ['Python', { 'main.py': '' }, 'python'],
  ['files', { 'index.html': '' }, 'static'],
])('subprojects of Gradle beside %s leave it what it is', async (_, files, language) => {
  expect((await generated({ 'settings.gradle': "include('app')\n", ...files })).language).toBe(language);
});

describe('versions', () => {
  test.each([
    ['>=18', '24'],
    ['^20.11.0', '20'],
    ['20.x', '20'],
    ['>=18 <21', '20'],
    ['18 || 20 || 22', '22'],
    ['18 - 22', '22'],
    ['>=18 <=22', '22'],
    ['18 - 26', '24'],
    ['*', '24'],
    ['latest', '24'],
    ['>=24.5', '24'],
    ['99999999999999', '24'],
  ])('of Node by the range %s: %s', async (range, version) => {
    const { text } = await generated({ 'package.json': json({ scripts: start, engines: { node: range } }) });
    expect(text).toContain(`/node:${version}-slim`);
  });

  test.each([
    ['v20.11.1', '20.11'],
    ['lts/iron', '20'],
    ['lts/*', '24'],
    ['constructor', '24'],
    ['22', '22'],
  ])('of Node by .nvmrc %s: %s', async (said, version) => {
    const { text } = await generated({ 'package.json': json({ scripts: start }), '.nvmrc': `${said}\n` });
    expect(text).toContain(`/node:${version}-slim`);
  });

  test.each([
    ['>=3.9', '3.13'],
    ['>=3.9,<3.13', '3.12'],
    ['~=3.11', '3.13'],
    ['==3.10.*', '3.10'],
  ])('of Python by the range %s: %s', async (range, version) => {
    const files = { 'pyproject.toml': `[project]\nname = "x"\nrequires-python = "${range}"\n`, 'main.py': '' };
    expect((await generated(files)).text).toContain(`/python:${version}-slim`);
  });

  test.each<[string, object, string]>([
    ['^7.3|^8.0', {}, '8.4'],
    ['^7.3|~8.1.0', {}, '8.1'],
    ['>=7.4 <=8.2', {}, '8.2'],
    ['^8.1', { packages: [{ name: 'a/b', require: { php: '~8.1.0 || ~8.2.0 || ~8.3.0' } }] }, '8.3'],
    ['^8.1', { packages: [{ name: 'a/b', require: { php: '~8.0.0' } }] }, '8.4'],
    ['^8.5', {}, '8.5'],
    ['~8.1.0', { packages: [{ name: 'a/b', require: { php: '^8.2' } }] }, '8.1'],
  ])('of PHP by the range %s and a lock %j: %s', async (php, locked, version) => {
    const files = {
      'composer.json': json({ require: { php } }),
      'composer.lock': json(locked),
      'index.php': '',
    };
    expect((await generated(files)).text).toContain(`/php:${version}-apache`);
  });

  test.each([
    ['ruby "3.2.2"', '3.3.5', '3.2.2'],
    ["ruby '3.2'", '3.2.9', '3.2.0'],
    ['ruby file: ".ruby-version"', 'ruby-3.3.5', '3.3.5'],
    ['ruby File.read(".ruby-version").strip', '3.3.5', '3.3.5'],
    ['ruby file: ".ruby-version"', '3.4', '3.4'],
    ['ruby "~> 3.2.2"', '3.2.9', '3.2'],
    ['gem "puma"', '3.3.5', '3.3'],
  ])('of Ruby by the line %s of the Gemfile and .ruby-version %s: %s', async (line, said, version) => {
    const files = { Gemfile: `${line}\n`, 'Gemfile.lock': 'GEM\n', '.ruby-version': `${said}\n` };
    const { text } = await generated(files, { hasCommand: true });
    expect(text).toContain(`/ruby:${version} AS build`);
    expect(text).toContain(`/ruby:${version}-slim`);
  });
});

describe('what is lacking is named with what to add', () => {
  const script = json({ scripts: {} });
  test.each<[string, Files, RegExp]>([
    ['nothing that is known', { 'README.md': '' }, /none of package\.json.*add a Dockerfile/],
    ['no start', { 'package.json': script }, /add a script start/],
    [
      'a start of Python beside scripts for its pages',
      { 'requirements.txt': 'x', 'package.json': json({ scripts: { build: 'tailwindcss' } }) },
      /Procfile/,
    ],
    ['Flask without a server', { 'requirements.txt': 'flask', 'app.py': 'app = Flask(__name__)' }, /declare gunicorn/],
    ['FastAPI without a server', { 'requirements.txt': 'fastapi', 'main.py': 'app = FastAPI()' }, /declare uvicorn/],
    ['a Python package without a start', { 'requirements.txt': 'x' }, /Procfile/],
    ['a Pipfile', { Pipfile: '' }, /requirements\.txt/],
    [
      'a Pipfile beside settings of tools',
      { Pipfile: '', 'pyproject.toml': '[tool.black]\nline-length = 100\n', 'main.py': '' },
      /Pipfile is not read/,
    ],
    [
      'several programs of Go',
      { 'go.mod': '', 'cmd/a/a.go': 'package main', 'cmd/b/b.go': 'package main' },
      /cmd\/a, cmd\/b/,
    ],
    ['a workspace of Rust', { 'Cargo.toml': '[workspace]\n' }, /workspace/],
    ['a jar that does not run', { 'pom.xml': '<project/>' }, /mainClass/],
    [
      'an archive for a server of applications',
      { 'pom.xml': '<packaging> war </packaging><artifactId>spring-boot-maven-plugin</artifactId>' },
      /packaging war.*jar/,
    ],
    [
      'subprojects of Gradle',
      {
        'build.gradle': "plugins {\n  id 'org.springframework.boot' version '3.5.0' apply false\n}\n",
        'settings.gradle': "rootProject.name = 'x'\ninclude 'api', 'web'\n",
      },
      /subprojects/,
    ],
    [
      'subprojects of Gradle with a catalogue',
      {
        'build.gradle.kts': 'plugins {\n  alias(libs.plugins.spring.boot) apply false\n}\n',
        'settings.gradle.kts': 'include("api")\n',
        'gradle/libs.versions.toml': '[plugins]\nspring-boot = "org.springframework.boot:3.5.0"\n',
      },
      /subprojects/,
    ],
    ['subprojects of Gradle alone', { 'settings.gradle': "include('app')\n" }, /subprojects/],
    ['a jar of Gradle that does not run', { 'build.gradle': "id 'java'" }, /add the plugin/],
    ['a Gemfile without lock', { Gemfile: '' }, /Gemfile\.lock/],
    ['PHP without an entry', { 'composer.json': '{}' }, /public\/index\.php/],
    [
      'an extension with libraries in an image of an old Debian',
      { 'composer.json': json({ require: { php: '~7.4.0', 'ext-gd': '*' } }), 'index.php': '' },
      /composer\.json needs the extension gd/,
    ],
    [
      'an extension that is not known',
      { 'composer.json': json({ require: { 'ext-gd\n"': '*' } }), 'index.php': '' },
      /gd\?\?/,
    ],
    [
      'a package of a workspace alone',
      { 'package.json': json({ scripts: start, dependencies: { a: 'workspace:*' } }) },
      /build_context/,
    ],
  ])('%s', async (_, files, message) => {
    expect(await failure(files)).toMatchObject({
      code: 'dockerfile_not_found',
      message: expect.stringMatching(message),
    });
  });
});

describe('a hostile repository', () => {
  const large = 2 * 1024 * 1024;
  test.each<[string, Files, string]>([
    ['a package.json of megabytes', { 'package.json': ' '.repeat(large) }, 'invalid_source'],
    ['no JSON', { 'package.json': '{' }, 'invalid_source'],
    ['another form', { 'package.json': '[]' }, 'invalid_source'],
    ['no TOML', { 'pyproject.toml': '[' }, 'invalid_source'],
    ['deep TOML', { 'pyproject.toml': `a = ${'['.repeat(10_000)}` }, 'invalid_source'],
    [
      'a lock file by a link that leads out',
      { 'package.json': json({ scripts: start }), 'yarn.lock': { link: '/etc/passwd' } },
      'path_outside_repository',
    ],
    ['a package.json by a link that leads out', { 'package.json': { link: '/etc/passwd' } }, 'path_outside_repository'],
    ['a link to itself', { 'package.json': { link: 'package.json' } }, 'dockerfile_not_found'],
    ['a folder for a package.json', { 'package.json/x': '' }, 'dockerfile_not_found'],
  ])('with %s gets an error', async (_, files, code) => expect(await failure(files)).toMatchObject({ code }));

  test('with deep JSON is read to where it matters', async () => {
    const deep = `{"scripts":{"start":"node a"},"x":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
    expect(cmdOf(await generated({ 'package.json': deep }))).toBe('CMD ["node", "a"]');
  });

  const bad = 'x"\nRUN id\n#$(id)`id`\\';
  test.each<[string, Files]>([
    ['main', { 'package.json': json({ main: bad, scripts: start }), [`${bad.replaceAll('/', '')}`]: '' }],
    ['packageManager', { 'package.json': json({ packageManager: `npm@1.0.0${bad}`, scripts: start }) }],
    ['engines', { 'package.json': json({ engines: { node: `20${bad}` }, scripts: start }) }],
    [
      'names of scripts and packages',
      { 'package.json': json({ name: bad, scripts: { ...start, [bad]: bad }, dependencies: { [bad]: bad } }) },
    ],
    ['.nvmrc', { 'package.json': json({ scripts: start }), '.nvmrc': `20${bad}` }],
    ['go.mod', { 'go.mod': `module ${bad}\ngo 1.22${bad}\n`, 'main.go': 'package main' }],
    ['.python-version', { 'main.py': '', '.python-version': `3.12${bad}` }],
    [
      'requires-python',
      { 'main.py': '', 'pyproject.toml': `[project]\nname = "x"\nrequires-python = ${json([bad]).slice(1, -1)}\n` },
    ],
    [
      'Gemfile.lock',
      { Gemfile: `ruby "3.3${bad}"`, 'Gemfile.lock': `    puma (${bad})\n    ${bad} (1)`, 'config.ru': '' },
    ],
    [
      'composer.json',
      {
        'composer.json': json({ require: { php: `^8${bad}` }, config: { platform: { php: `8.1${bad}` } } }),
        'index.php': '',
      },
    ],
    ['build.gradle', { 'build.gradle': `org.springframework.boot\njvmToolchain(${bad}17)` }],
  ])('puts nothing of its own into a step: %s', async (_, files) => {
    const { text, reasons } = await generated(files);
    expect(text).not.toContain('RUN id');
    expect(text).not.toContain('$(id)');
    expect([...reasons, text].join('\n')).not.toContain('`id`');
    readDockerfile(Buffer.from(text), {});
  });

  test('of the names of arguments those alone that no builder reads as more', async () => {
    const buildArgs = ['A', 'my.arg', 'MY-KEY', 'A\\', '"A', '$(id)', 'é', '1A', '#', 'A;RUN'];
    const { text } = await generated({ 'package.json': json({ scripts: start }) }, { buildArgs });
    expect([...new Set(text.match(/^ARG (?!BASE_REGISTRY).*$/gm))]).toEqual(['ARG A', 'ARG my.arg', 'ARG MY-KEY']);
  });

  test('names of folders and of programs that no shell takes as they are do not get in', async () => {
    expect(await failure({ 'go.mod': '', 'cmd/a b;id/main.go': 'package main' })).toMatchObject({
      code: 'dockerfile_not_found',
    });
    expect(await failure({ 'Cargo.toml': '[package]\nname = "a;id"\n', 'src/main.rs': '' })).toMatchObject({
      code: 'invalid_source',
    });
  });

  test.each<[string, Files]>([
    [
      'blank lines',
      { 'requirements.txt': '\n'.repeat(1_000_000), 'go.mod': ' \n'.repeat(500_000), 'main.go': 'package main' },
    ],
    ['blank lines of packages', { 'requirements.txt': '\n'.repeat(1_000_000), 'main.py': '' }],
    ['one long line', { 'requirements.txt': 'a'.repeat(1_000_000), 'main.py': `app${' '.repeat(190_000)}` }],
    ['a long script', { 'package.json': json({ scripts: { start: 'a '.repeat(400_000) } }) }],
    [
      'many packages',
      {
        'package.json': json({
          scripts: start,
          dependencies: Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`p${n}`, '1'])),
        }),
      },
    ],
  ])('takes no time: %s', { timeout: 20_000 }, async (_, files) => {
    expect((await generated(files)).text).toContain('USER 10001:10001');
  });
});
