/** Builds the agent as one executable for each platform, and signs what it built: see docs/operations.md. */
import { parseArgs } from 'node:util';
import { platforms } from '../../agent-protocol/release-manifest.ts';
import { releaseKey, releaseKeyPath, signerIn } from './release-key.ts';
import { buildRelease } from './build-release.ts';

const usage = `Usage: make release, or node cli/release/release.ts [--out FOLDER] [--key FILE] [--platform NAME]… [--former FOLDER] [--new-key] [--replace]
  --out       where the release is written (dist)
  --key       the key that signs it, which is made if there is none (${releaseKeyPath()})
  --platform  only for this platform: ${platforms.join(', ')} (all)
  --former    folder of the release before, if it is another one (/opt/setpoint/dist)
  --new-key   sign by another key than that of the release before: its agents do not take this one
  --replace   replace a release of the same version by another build: agents that run it are not updated`;
const deadlineMs = 30 * 60_000;

try {
  const { values } = parseArgs({
    options: {
      out: { type: 'string', default: 'dist' },
      key: { type: 'string', default: process.env['SETPOINT_RELEASE_KEY'] ?? releaseKeyPath() },
      platform: { type: 'string', multiple: true, default: [...platforms] },
      former: { type: 'string', default: '/opt/setpoint/dist' },
      'new-key': { type: 'boolean', default: false },
      replace: { type: 'boolean', default: false },
    },
  });
  const wanted = platforms.filter((it) => values.platform.includes(it));
  if (wanted.length !== values.platform.length) throw new Error(usage);
  const signer = (await signerIn(values.out)) ?? (await signerIn(values.former));
  const { key, isNew } = await releaseKey(values.key, values['new-key'] ? undefined : signer);
  if (isNew)
    console.log(`Made the key that signs releases: ${values.key}. Keep a copy, and keep it off the control plane`);
  const started = performance.now();
  const { version, files } = await buildRelease(
    {
      out: values.out,
      key,
      platforms: wanted,
      packed: true,
      former: values.former,
      replace: values.replace || values['new-key'],
    },
    AbortSignal.timeout(deadlineMs),
  );
  for (const { name, size } of files) console.log(`${values.out}/${name}  ${(size / 1e6).toFixed(1)} MB`);
  console.log(`Release ${version} was built in ${((performance.now() - started) / 1000).toFixed(1)} s`);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
