import { relative } from 'node:path';
import { rolldown } from 'rolldown';

const root = new URL('../../', import.meta.url).pathname;
const program = 'cli/setpoint-agent.ts';
const keysModule = `${root}cli/release-keys.ts`;

/**
 * The program of the agent as one module: its sources and the packages that it uses. Only modules of Node remain
 * outside. The same sources and keys give the same text. `releaseKeys`: keys (raw, base64url) that may sign the releases
 * by which it is replaced. `sources`: the files in it, from the root of the checkout. @throws Error if something could
 * not be bundled
 */
export async function bundleAgent(releaseKeys: readonly string[]): Promise<{ code: string; sources: string[] }> {
  const faults: string[] = [];
  const replaced: string[] = [];
  await using bundle = await rolldown({
    cwd: root,
    input: program,
    platform: 'node',
    // ws looks for faster implementations that are not among our packages, in folders around the executable
    transform: { define: { 'process.env.WS_NO_BUFFER_UTIL': '"1"', 'process.env.WS_NO_UTF_8_VALIDATE': '"1"' } },
    external: (id) => id.startsWith('node:'),
    plugins: [
      {
        name: 'release-keys',
        load(id) {
          if (id !== keysModule) return null;
          replaced.push(id);
          return `export const releaseKeys = ${JSON.stringify(releaseKeys)};`;
        },
      },
    ],
    onLog: (_level, { code, message }) => void faults.push(`${code ?? 'fault'}: ${message}`),
  });
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false, minify: false, comments: false });
  const [module, ...others] = output;
  if (replaced.length === 0) faults.push(`no key: nothing imports ${keysModule}`);
  if (faults.length > 0 || others.length > 0)
    throw new Error(
      `The agent cannot be bundled into one module:\n${[...faults, ...others.map((it) => it.fileName)].join('\n')}`,
    );
  return { code: module.code, sources: module.moduleIds.map((path) => relative(root, path)) };
}
