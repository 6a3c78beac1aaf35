/**
 * Versions of runc that let a container out onto its machine, by the release that mends each series.
 *
 * - CVE-2024-21626 (GHSA-xr7r-f8xq-vfvv), a leaked file descriptor of the host: up to 1.1.11, mended in 1.1.12.
 * - CVE-2025-31133 (GHSA-9493-h29p-rfm2), CVE-2025-52565 (GHSA-qw9x-cqr3-wc7r) and CVE-2025-52881 (GHSA-cgrx-mc8f-2prm),
 *   writes to files of /proc past the masks: mended in 1.2.8, 1.3.3 and 1.4.0-rc.3; 1.1 and earlier are not mended.
 */
const mended: Readonly<Record<string, readonly [patch: number, candidate: number]>> = {
  '1.2': [8, 0],
  '1.3': [3, 0],
  '1.4': [0, 3],
};
const leak = 'CVE-2024-21626';
const masks = 'CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881';

export type RuncJudgement =
  | { is: 'good' }
  | { is: 'bad'; faults: string }
  /** It is no release of runc itself: a distribution may have mended it under the same number. */
  | { is: 'unknown'; faults?: string };

/** Judges a version as runc or the engine shows it. */
export function judgeRunc(version: string): RuncJudgement {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(?:-rc\.?(\d+))?(.*)$/.exec(version.trim());
  if (match === null) return { is: 'unknown' };
  const [, major = '', minor = '', patch = '', candidate, rest = ''] = match;
  const faults = faultsOf(
    Number(major),
    Number(minor),
    Number(patch),
    candidate === undefined ? undefined : Number(candidate),
  );
  if (faults === undefined) return { is: 'good' };
  return rest === '' ? { is: 'bad', faults } : { is: 'unknown', faults };
}

function faultsOf(major: number, minor: number, patch: number, candidate: number | undefined): string | undefined {
  if (major > 1) return undefined;
  if (major < 1 || minor < 1 || (minor === 1 && patch < 12)) return `${leak}, ${masks}`;
  if (minor === 1) return masks;
  const [mendedPatch, mendedCandidate] = mended[`${major}.${minor}`] ?? [0, 0];
  if (patch !== mendedPatch) return patch < mendedPatch ? masks : undefined;
  // A candidate comes before the release of its number.
  return candidate !== undefined &&
    (mendedCandidate === 0 || candidate < mendedCandidate) &&
    mendedPatch + mendedCandidate > 0
    ? masks
    : undefined;
}
