import { arch } from 'node:os';
import type { PackageImage } from '../../harness/package-image.ts';

/** An image of a product that npm has, with Node, whose user is `node`. */
export function nodeImage(
  folder: string,
  modules: readonly string[],
  { lines, files }: { lines: readonly string[]; files?: Readonly<Record<string, string>> },
): PackageImage {
  return {
    suite: 'trixie',
    packages: ['libstdc++6', 'libatomic1'],
    npm: { node: `node-linux-${arch()}@22.23.5` },
    modules: { modules },
    ...(files !== undefined && { files }),
    lines: [
      'COPY node/bin/node /usr/local/bin/',
      'RUN groupadd --gid 1000 node && useradd --uid 1000 --gid node --create-home node',
      `COPY modules ${folder}`,
      `WORKDIR ${folder}`,
      'ENV NODE_ENV=production',
      ...lines,
    ],
  };
}
