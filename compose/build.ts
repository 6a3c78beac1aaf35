import type { PlainComposedService } from '../store/kinds/composed-service.ts';
import type { Variables } from './interpolate.ts';
import type { Node } from './node.ts';
import { insideRepository } from './paths.ts';
import type { Declared } from './mounts.ts';
import { readKeys, readMatching, readText, withoutEffect } from './read-value.ts';
import type { Keys } from './read-value.ts';
import { refusedOfBuild } from './refused.ts';
import { readVariables } from './environment.ts';

type Build = NonNullable<PlainComposedService['build']>;

const maxInlineBytes = 64 * 1024;
const noFolder = 'must be a folder inside the repository of the compose file';

/** Reads `build`: a folder of the repository, with a Dockerfile of it. */
export function readBuild(node: Node, found: Declared & { variables: Variables }): Build {
  const build: Build = { context: found.folder, dockerfile_path: 'Dockerfile', args: {} };
  const context = (it: Node): void => {
    const text = readText(it, found);
    const inside =
      text === undefined || /^[a-z+]+:|^[\w.-]+@/i.test(text) ? undefined : insideRepository(text, found.folder);
    if (inside === undefined) found.findings.error(it, noFolder);
    else build.context = inside;
  };
  const keys: Keys<Declared> = {
    context,
    dockerfile(it) {
      const text = readText(it, found);
      const inside = text === undefined ? undefined : insideRepository(text);
      if (inside === undefined || inside === '.') found.findings.error(it, 'must be a file inside the context');
      else build.dockerfile_path = inside;
    },
    dockerfile_inline(it) {
      const text = readText(it, found);
      if (text === undefined) return;
      if (Buffer.byteLength(text) > maxInlineBytes)
        found.findings.error(it, `must be at most ${maxInlineBytes / 1024} KiB`);
      else build.dockerfile = text;
    },
    args(it) {
      build.args = readVariables(it, found, 'arguments');
    },
    target: (it) => {
      const target = readMatching(it, /^[A-Za-z0-9][\w.-]{0,127}$/, 'must be the name of a stage', found);
      if (target !== undefined) build.target = target;
    },
    labels: withoutEffect('labels of images belong to Setpoint'),
    provenance: withoutEffect('images have no attestations'),
    sbom: withoutEffect('images have no attestations'),
    no_cache: withoutEffect('builds use the cache of their server'),
    pull: withoutEffect('a build looks for newer base images itself'),
  };
  if (node.type === 'scalar') context(node);
  else readKeys(node, keys, found, refusedOfBuild);
  if (!found.inRepository)
    found.findings.error(node, 'is refused: this compose file is in no repository to build from. Name an image');
  return build;
}
