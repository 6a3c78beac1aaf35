import { readFile } from 'node:fs/promises';
import type { ReleaseManifest } from '../../agent-protocol/release-manifest.ts';

const folder = new URL('../../manifests/install/', import.meta.url);
/** What the script installs beside the executable, by the function that prints it. */
const files = {
  supervise_file: 'agent/supervise.sh',
  service_file: 'systemd/setpoint-agent.service',
  slice_file: 'systemd/setpoint-builds.slice',
} as const;
/** Ends the text of a file; no file has such a line. */
const end = 'END_OF_SETPOINT_FILE';

/**
 * The script that installs an agent of this release: values that depend on the release, the files that it installs,
 * `patiently.sh` and `install.sh`. Its last line starts it, so that a script that was cut off on its way does nothing.
 */
export async function installScript(manifest: ReleaseManifest, publicUrl: string): Promise<string> {
  const rows = manifest.files.map(({ platform, size, sha256, name }) => `${platform} ${size} ${sha256} ${name}`);
  const printed = Object.entries(files).map(
    async ([name, path]) => `${name}() {\ncat <<'${end}'\n${await read(path)}${end}\n}\n`,
  );
  return [
    '#!/bin/sh\nset -eu\n',
    `version=${quoted(manifest.version)}\n`,
    `base_url=${quoted(publicUrl.replace(/\/$/, ''))}\n`,
    `release_files=${quoted(rows.join('\n'))}\n`,
    ...(await Promise.all(printed)),
    await read('patiently.sh'),
    await read('agent/install.sh'),
  ].join('');
}

function read(path: string): Promise<string> {
  return readFile(new URL(path, folder), 'utf8');
}

/** A word of the shell that stands for this text. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
