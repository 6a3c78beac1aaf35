import { readFileSync } from 'node:fs';
import { said, saidChars } from '../ssh/said.ts';

/** What a job of provisioning does on the machine. */
export type JobName = 'packages' | 'agent';

export interface Job {
  /** A UUID, the same for each look at this attempt. */
  id: string;
  name: JobName;
}

/** What the script that starts or looks at a job printed. */
export type JobState =
  | { state: 'none' }
  /** `says`: its last message, where it had one. */
  | { state: 'running'; says?: string }
  | { state: 'ended'; code: number; says: string }
  /** The machine lacks a program that the job needs. */
  | { state: 'impossible'; lacks: string }
  /** What was printed is none of these. */
  | { state: 'unknown'; says: string };

/** What is sent to the machine when the job is to start. */
export interface Payload {
  /** The script of the job. */
  script: string;
  /** URL of the control plane with its tenant. */
  server: string;
  /** Join token of the agent; empty for other jobs. */
  token: string;
  /** Whether the agent may reach the control plane by plain http. */
  plainHttp?: boolean;
}

/** How long a job may take on the machine, and how long a look waits for its end. Seconds. */
export const jobSeconds: Readonly<Record<JobName, number>> = { packages: 1500, agent: 420 };
const lookPatienceSeconds = 10;
/** Longest time of the script that starts a job or looks at one: it waits, and needs a moment itself. */
export const jobLookMs = 18_000;

const jobScript = readFileSync(new URL('job.sh', import.meta.url), 'utf8');
/** Installs what a machine lacks. */
export const packagesScript: string = ['../../manifests/install/patiently.sh', 'packages.sh']
  .map((path) => readFileSync(new URL(path, import.meta.url), 'utf8'))
  .join('');

/** Ends the text of the payload; no script has such a line. */
const end = 'END_OF_SETPOINT_JOB';

const forms = {
  id: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  server: /^https?:\/\/[A-Za-z0-9.:/_%[\]-]{1,500}$/,
  token: /^(sj_[A-Za-z0-9_-]{1,200})?$/,
} as const;

/** Whether a script may have that address of the control plane in it. */
export function isUsableAddress(address: string): boolean {
  return forms.server.test(address);
}

/** The script that looks at a job. Its last line begins, so that a script that is cut off on its way does nothing. */
export function looksAt({ id, name }: Job): string {
  return composed({ id, name }, undefined);
}

/** The script that starts a job unless it runs or has ended. @throws Error if a value has not the form of its kind */
export function starts(job: Job, payload: Payload): string {
  return composed(job, payload);
}

function composed({ id, name }: Job, payload: Payload | undefined): string {
  const { script = '', server = '', token = '', plainHttp = false } = payload ?? {};
  if (!forms.id.test(id)) throw new Error(`The id of a job must be a UUID: ${id}`);
  if (payload !== undefined && !isUsableAddress(server))
    throw new Error(`The address of the control plane has characters that no script takes: ${server}`);
  if (!forms.token.test(token)) throw new Error('The join token has characters that no token has');
  if (script.split('\n').includes(end)) throw new Error('The script of a job has the line that ends it');
  return [
    `job='${id}' seconds=${jobSeconds[name]} patience=${lookPatienceSeconds} starts=${payload === undefined ? '' : 'yes'}\n`,
    `server='${server}' token='${token}' plain_http=${plainHttp ? '--allow-plain-http' : ''}\n`,
    `payload() {\ncat <<'${end}'\n${script}${script === '' || script.endsWith('\n') ? '' : '\n'}${end}\n}\n`,
    jobScript,
  ].join('');
}

/**
 * Reads what the script printed. What a machine says beside it, such as a greeting, is passed over. `hide` takes out of
 * its words what is not to be shown.
 */
export function jobStateOf(output: string, errors: string, hide: (text: string) => string): JobState {
  const found = new Map(
    output.split('\n').flatMap((line): [string, string][] => {
      const at = line.indexOf('=');
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1).trim()]] : [];
    }),
  );
  const lacks = found.get('lacks');
  if (lacks !== undefined) return { state: 'impossible', lacks: said(hide(lacks), saidChars.fact) };
  const state = found.get('state');
  const says = sayingOf(hide(found.get('says') ?? ''));
  if (state === 'none') return { state };
  if (state === 'running') return { state, ...(says !== '' && { says }) };
  if (state === 'ended') return { state, code: Number(found.get('code') ?? 'NaN'), says };
  return {
    state: 'unknown',
    says: sayingOf(
      hide(errors || output)
        .trim()
        .slice(-300),
    ),
  };
}

/** The message of a condition holds no time. */
function sayingOf(text: string): string {
  return said(text, saidChars.line).replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z?/g, '…');
}
