import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { FunctionRuntime } from '../../store/kinds/function.ts';

/** What a version of a function is made of. */
interface Source {
  runtime: FunctionRuntime;
  code: string;
  /** JSON in the form of the runtime. */
  dependencies: string | undefined;
  /** The image to build upon, in place of that of the runtime. */
  base: string | undefined;
}

interface Recipe {
  dockerfile: string;
  files: Record<string, string>;
}

interface Runtime {
  /** The official image. */
  image: string;
  /** File of the launcher in the folder of the runtime, and its name in the image. */
  launcher: readonly [file: string, name: string];
  /** Name of the file with the code. */
  handler: string;
  /** The Dockerfile after its FROM, and files that describe the dependencies, if there are any. */
  build: (dependencies: string | undefined) => { lines: readonly string[]; files: Record<string, string> };
}

const Versions = z.record(z.string(), z.string());
const install = 'install --ignore-scripts';
const packageFile = (dependencies: string): string =>
  `${JSON.stringify({ private: true, type: 'module', dependencies: Versions.parse(JSON.parse(dependencies)) })}\n`;

/** Every runtime: its launcher answers HTTP on `SETPOINT_PORT` once it has loaded the handler. */
const runtimes: Readonly<Record<FunctionRuntime, Runtime>> = {
  node20: {
    image: 'docker.io/library/node:20-slim',
    launcher: ['launcher.mjs', 'launcher.mjs'],
    handler: 'handler.mjs',
    build: (dependencies) => ({
      lines: [
        'WORKDIR /function',
        ...(dependencies === undefined
          ? []
          : ['COPY package.json ./', `RUN npm ${install} --omit=dev --no-audit --no-fund --no-update-notifier`]),
        'COPY handler.mjs launcher.mjs ./',
        'RUN ["node", "launcher.mjs", "--check"]',
        'ENTRYPOINT ["node", "/function/launcher.mjs"]',
      ],
      files: dependencies === undefined ? {} : { 'package.json': packageFile(dependencies) },
    }),
  },
  bun: {
    image: 'docker.io/oven/bun:1-slim',
    launcher: ['launcher.mjs', 'launcher.mjs'],
    handler: 'handler.ts',
    build: (dependencies) => ({
      lines: [
        'WORKDIR /function',
        ...(dependencies === undefined ? [] : ['COPY package.json ./', `RUN bun ${install} --production`]),
        'COPY handler.ts launcher.mjs ./',
        'RUN ["bun", "run", "launcher.mjs", "--check"]',
        'ENTRYPOINT ["bun", "run", "/function/launcher.mjs"]',
      ],
      files: dependencies === undefined ? {} : { 'package.json': packageFile(dependencies) },
    }),
  },
  deno: {
    image: 'docker.io/denoland/deno:debian-2',
    launcher: ['launcher.mjs', 'launcher.mjs'],
    handler: 'handler.ts',
    build: (dependencies) => {
      // its container says what it may read and write, as for the other runtimes: volumes are mounted where a user says
      const run =
        '"deno", "run", "--cached-only", "--no-prompt", "--allow-net", "--allow-env", "--allow-sys", "--allow-read", "--allow-write", "--import-map=/function/imports.json", "/function/launcher.mjs"';
      return {
        lines: [
          'WORKDIR /function',
          'ENV DENO_DIR=/function/.deno DENO_NO_UPDATE_CHECK=1 NO_COLOR=1',
          'COPY imports.json handler.ts launcher.mjs ./',
          'RUN ["deno", "cache", "--import-map=/function/imports.json", "handler.ts", "launcher.mjs"]',
          `RUN [${run}, "--check"]`,
          `ENTRYPOINT [${run}]`,
        ],
        files: { 'imports.json': dependencies ?? '{"imports":{}}' },
      };
    },
  },
  python3: {
    image: 'docker.io/library/python:3.13-slim',
    launcher: ['launcher.py', 'launcher.py'],
    handler: 'handler.py',
    build: (dependencies) => ({
      lines: [
        'WORKDIR /function',
        ...(dependencies === undefined
          ? []
          : [
              'COPY requirements.txt ./',
              'RUN python3 -m pip install --no-cache-dir --only-binary=:all: --target=/function/packages -r requirements.txt',
            ]),
        'ENV PYTHONPATH=/function/packages PYTHONUNBUFFERED=1',
        'COPY handler.py launcher.py ./',
        'RUN ["python3", "launcher.py", "--check"]',
        'ENTRYPOINT ["python3", "/function/launcher.py"]',
      ],
      files:
        dependencies === undefined
          ? {}
          : { 'requirements.txt': `${z.array(z.string()).parse(JSON.parse(dependencies)).join('\n')}\n` },
    }),
  },
  go: {
    image: 'docker.io/library/golang:1.24',
    launcher: ['launcher.go.txt', 'launcher.go'],
    handler: 'handler.go',
    build: (dependencies) => {
      const modules = Object.entries(dependencies === undefined ? {} : Versions.parse(JSON.parse(dependencies)));
      const required = modules.map(([name, version]) => `require ${name} ${version}\n`).join('');
      return {
        lines: [
          'WORKDIR /build',
          `ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=mod${modules.length === 0 ? ' GOPROXY=off' : ''}`,
          'COPY go.mod handler.go launcher.go ./',
          ...(modules.length === 0 ? [] : ['RUN go mod tidy']),
          'RUN go build -trimpath -o /build/function .',
          'FROM scratch',
          'COPY --from=0 /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt',
          'COPY --from=0 /build/function /function',
          'ENTRYPOINT ["/function"]',
        ],
        files: { 'go.mod': `module function\n\ngo 1.19\n\n${required}` },
      };
    },
  },
};

const launchers = new Map<FunctionRuntime, string>();

function launcherOf(runtime: FunctionRuntime): string {
  const [file] = runtimes[runtime].launcher;
  const text = launchers.get(runtime) ?? readFileSync(join(import.meta.dirname, runtime, file), 'utf8');
  launchers.set(runtime, text);
  return text;
}

/** What the image of a version is built of. Equal versions have equal recipes. */
export function recipeOf({ runtime, code, dependencies, base }: Source): Recipe {
  const { image, handler, launcher, build } = runtimes[runtime];
  const { lines, files } = build(dependencies);
  return {
    dockerfile: [`FROM ${base ?? image}`, ...lines, ''].join('\n'),
    files: { ...files, [handler]: code, [launcher[1]]: launcherOf(runtime) },
  };
}
