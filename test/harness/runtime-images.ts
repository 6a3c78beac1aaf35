import { readFile } from 'node:fs/promises';
import { arch } from 'node:os';
import type { FunctionRuntime } from '../../store/kinds/function.ts';
import { ensurePackageImage, type PackageImage } from './package-image.ts';
import { npmAccess } from './package-sources.ts';

const authorities = '/etc/test-authorities.pem';
const node = (name: string): string => `node-linux-${arch()}@${name}`;

/** Images that functions are built upon, in place of the official ones of Docker Hub. */
const images: Readonly<Record<FunctionRuntime, () => PackageImage | Promise<PackageImage>>> = {
  node20: async () => ({
    suite: 'trixie',
    packages: ['libstdc++6', 'libatomic1'],
    npm: { node: node('20'), npm: 'npm@10' },
    ...(await withNpm()),
    lines: [
      ...(await npmSettings()),
      'COPY node/bin/node /usr/local/bin/',
      'COPY npm /usr/local/lib/node_modules/npm',
      'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm',
    ],
  }),
  bun: async () => ({
    suite: 'trixie',
    npm: { bun: `@oven/bun-linux-${arch() === 'x64' ? 'x64' : 'aarch64'}@1` },
    ...(await withNpm()),
    lines: [...(await npmSettings()), 'COPY bun/bin/bun /usr/local/bin/', 'RUN chmod 755 /usr/local/bin/bun'],
  }),
  deno: () => ({
    suite: 'trixie',
    packages: ['libgcc-s1'],
    npm: { deno: `@deno/linux-${arch()}-glibc@2` },
    lines: ['COPY deno/deno /usr/local/bin/', 'RUN chmod 755 /usr/local/bin/deno'],
  }),
  python3: () => ({ suite: 'trixie', packages: ['python3', 'python3-pip'] }),
  go: () => ({
    suite: 'trixie',
    packages: ['golang-go'],
    files: {
      'warm.go':
        'package main\n\nimport _ "net/http"\nimport _ "encoding/json"\nimport _ "runtime/debug"\n\nfunc main() {}\n',
    },
    // what every function needs is compiled once
    lines: [
      'ENV GOCACHE=/go/cache GOPATH=/go GOTOOLCHAIN=local CGO_ENABLED=0',
      'COPY warm.go /tmp/warm/',
      'RUN cd /tmp/warm && GOPROXY=off go build -trimpath -o /dev/null warm.go && rm -r /tmp/warm',
    ],
  }),
};

async function withNpm(): Promise<Pick<PackageImage, 'files'>> {
  const { authorities: file } = await npmAccess();
  return { files: { authorities: file === undefined ? '' : await readFile(file) } };
}

/** How a package manager in a container reaches its packages as npm does from here. */
async function npmSettings(): Promise<string[]> {
  const npm = await npmAccess();
  const variables = Object.entries(npm.variables(authorities)).map(([name, value]) => `ENV ${name}=${value}`);
  return [...variables, `COPY authorities ${authorities}`];
}

/** Makes the image of a runtime unless this machine's engine has it. Answers with its reference. */
export async function ensureRuntimeImage(runtime: FunctionRuntime): Promise<string> {
  return ensurePackageImage(`function-${runtime}`, await images[runtime]());
}
