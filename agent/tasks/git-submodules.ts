import { lstat, mkdir, readdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { isForHost } from './git-access.ts';
import {
  checkoutCommit,
  localGit,
  type Budget,
  type CheckedOut,
  type CheckoutTools,
  type Wanted,
} from './git-checkout.ts';
import { invalid, unreachable } from './git-failure.ts';
import { gitUrl, type GitProtocol } from './git-source.ts';

/** Most submodules of one checkout, those of submodules included, and how deep they may lie in each other. */
export const submoduleLimits = { count: 20, depth: 3 } as const;
const maxDeclarationBytes = 256 * 1024;

/** A checkout whose submodules are fetched: all of them together have one budget and one deadline. */
export interface Submodules {
  tools: CheckoutTools;
  allowed: ReadonlySet<GitProtocol>;
  budget: Budget;
  /** Empty folder for git's own files, which is removed afterwards. */
  folder: string;
  /** The instant until which all must be fetched, in milliseconds since 1970. */
  until: number;
  left: number;
}

/**
 * Fetches the submodules of a checkout at the commits that it names, each as any other repository: at an address that is
 * judged, by an allowed protocol, and with the credential only if it is for the same host.
 * @throws RuntimeFailure `invalid_source`, `repository_unreachable`, `no_space`
 */
export async function checkoutSubmodules(
  it: Submodules,
  parent: Wanted,
  { commit, submodules }: Pick<CheckedOut, 'commit' | 'submodules'>,
  signal: AbortSignal,
  depth = 1,
): Promise<void> {
  if (submodules.length === 0) return;
  const { url } = parent.source;
  if (depth > submoduleLimits.depth)
    throw invalid(`Submodules of ${url} lie deeper than ${submoduleLimits.depth} repositories in each other`);
  it.left -= submodules.length;
  if (it.left < 0) throw invalid(`Repository ${url} has more than ${submoduleLimits.count} submodules with its own`);
  const declared = await declaredIn(it.tools, parent, commit, signal);
  for (const { path, commit: at } of submodules) {
    try {
      const address = declared.get(path);
      if (address === undefined) throw invalid('.gitmodules has no url for it');
      const source = gitUrl(resolvedUrl(url, address), it.allowed);
      const withinMs = it.until - it.tools.clock.now().getTime();
      if (withinMs <= 0) throw unreachable('The repositories before it took all the time');
      const wanted: Wanted = {
        source,
        credential:
          parent.credential !== undefined && isForHost(parent.credential, source) ? parent.credential : undefined,
        at: { commit: at, ifLost: 'push it there, or let the submodule name another one' },
        store: join(it.folder, String(it.left), path.replaceAll('/', '-').slice(0, 100)),
        tree: await emptyFolder(parent.tree, path),
        withinMs,
      };
      await mkdir(wanted.store, { recursive: true });
      const made = await checkoutCommit(it.tools, wanted, it.budget, undefined, signal);
      await checkoutSubmodules(it, wanted, made, signal, depth + 1);
      await rm(wanted.store, { recursive: true });
    } catch (error) {
      if (!(error instanceof RuntimeFailure)) throw error;
      const message = `Submodule ${JSON.stringify(path.slice(0, 200))} of ${url}: ${error.message}`;
      throw new RuntimeFailure(error.code, message, { retryable: error.retryable, cause: error });
    }
  }
}

/** The addresses in `.gitmodules`, by path. Nothing else of that file is used. */
async function declaredIn(
  tools: CheckoutTools,
  parent: Wanted,
  commit: string,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const own = localGit(tools, parent, signal);
  const text = await own(['config', '--no-includes', '--blob', `${commit}:.gitmodules`, '--list', '-z'], {
    maxOutputBytes: maxDeclarationBytes,
    tooMuch: `Repository ${parent.source.url} has a .gitmodules of more than ${maxDeclarationBytes} bytes`,
  });
  const sections = new Map<string, { path?: string; url?: string }>();
  for (const entry of text.split('\0')) {
    const found = /^submodule\.(.+)\.(path|url)\n(.*)$/s.exec(entry);
    if (found === null) continue;
    const [, name = '', field, value] = found;
    sections.set(name, { ...sections.get(name), [field === 'path' ? 'path' : 'url']: value });
  }
  return new Map([...sections.values()].flatMap(({ path, url }) => (path && url ? [[path, url] as const] : [])));
}

/** An address that begins with `./` or `../` counts from that of the repository that names it. */
function resolvedUrl(parent: string, address: string): string {
  if (!/^\.\.?\//.test(address)) return address;
  const found = /^([a-z]+:\/\/[^/]*\/|[^/]+:)(.*?)\/?$/.exec(parent);
  const [, root = '', path = ''] = found ?? [];
  const parts = path.split('/');
  let rest = address;
  while (/^\.\.?\//.test(rest)) {
    if (rest.startsWith('../') && parts.pop() === undefined)
      throw invalid(`Its address ${JSON.stringify(address.slice(0, 200))} leads out of ${parent}`);
    rest = rest.replace(/^\.\.?\//, '');
  }
  return root + [...parts, rest].join('/');
}

/** The folder that git made for a submodule. @throws RuntimeFailure `invalid_source` if something else is there */
async function emptyFolder(tree: string, path: string): Promise<string> {
  const root = await realpath(tree);
  const at = join(root, path);
  const isAsGitMadeIt = (await realpath(at).catch(() => '')) === at && (await lstat(at)).isDirectory();
  if (isAsGitMadeIt && (await readdir(at)).length === 0) return at;
  throw invalid('Its path is no empty folder');
}
