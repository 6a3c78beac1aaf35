import { foldName } from '../../store/fold-name.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { commit } from '../../store/unit.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { tooMany } from '../ground/api-error.ts';
import type { ApiDependencies, RequestInfo } from '../ground/dependencies.ts';
import { countedWith, dayMs, knownForMs, knownWith, secondsUntil, within } from './counted-places.ts';
import type { Asking, Places } from './counted-places.ts';
import type { ShortSecrets } from './short-secrets.ts';

interface Context extends Pick<ApiDependencies, 'clock' | 'random'> {
  tenant: string;
  view: TenantView;
  shortSecrets: ShortSecrets;
  request: RequestInfo;
}
type CodeRecord = ReadonlyResource<'login_code'>['desired'];
type Code = CodeRecord['codes'][number];

export const codeLifeMs = 10 * 60_000;
const pauseMs = 60_000;
const hourMs = 3_600_000;
const perHour = 5;
/** Codes sent and wrong guesses in a day: for each known place, and for all unknown places together. */
const sentPerDay = 20;
const failuresPerDay = 20;
/** Wrong guesses at one code from the place that asked for it, and as many again from other places. */
const maxFailures = 5;
const maxCodes = 10;
/** Addresses with a code record, with an account or not; at the limit the oldest one is deleted. */
const maxRecords = 10_000;
/** Namespace of the record ids (UUIDv5). */
const namespace = 'b2a53c8e-3f0d-4a6b-9b57-0f6f7f1f1f6d';

/** One address always has the same record id. */
export function codeIdOf(email: string): string {
  return uuidv5(namespace, foldName(email));
}

/**
 * Adds a new code for an address to the unit. It replaces an earlier code that was asked for at the same place. The
 * same is written for an address with an account and for one without.
 *
 * @throws ApiError TOO_MANY_REQUESTS within a minute of the last code for this place, for its sixth in an hour, and
 *   for the twenty-first in a day, counted for this place if the owner was here, else for all unknown places together
 */
export function makeCode(ctx: Context, unit: Unit, email: string): string {
  const id = codeIdOf(email);
  const known = ctx.view.get('login_code', id);
  const now = ctx.clock.now().getTime();
  const { address: source } = ctx.request;
  const before = known?.desired;
  const sent = within(before?.sent, dayMs, now);
  requirePatience(sent, { source, now, known: before?.known });
  const code = sixDigits(ctx);
  const made = {
    source,
    hash: ctx.shortSecrets.hash(ownerOf(ctx, id), code),
    expires_at: new Date(now + codeLifeMs).toISOString(),
    failures: 0,
    failures_elsewhere: 0,
  };
  const others = liveCodes(before, now).filter((it) => it.source !== source);
  const desired = {
    email,
    codes: [...withRoom(others, before), made],
    sent: [...sent, { source, at: new Date(now).toISOString() }],
    failed: within(before?.failed, dayMs, now),
    known: within(before?.known, knownForMs, now),
  };
  if (known !== undefined) unit.change(known, (draft) => void Object.assign(draft, desired));
  else {
    const all = ctx.view.list('login_code');
    const oldest = all.length < maxRecords ? undefined : (all.find((it) => it.desired.known.length === 0) ?? all[0]);
    if (oldest !== undefined) unit.requestDelete(oldest);
    unit.create('login_code', id, desired);
  }
  return code;
}

/** The result of comparing a guess. */
export interface JudgedCode {
  isRight: boolean;
  /** The code that the guess was compared with; absent if there is no live one. */
  at: { record: ReadonlyResource<'login_code'>; hash: string } | undefined;
}

/**
 * Compares a guess with the code of the address: the code that was asked for at this place, else the last one from a
 * known place of the owner, else the last one. It changes nothing: see {@link useUp} and {@link countFailure}.
 *
 * @throws ApiError TOO_MANY_REQUESTS after twenty wrong guesses within a day at this place if the owner was here,
 *   else at all unknown places together
 */
export function judgeCode(ctx: Context, email: string, given: string): JudgedCode {
  const id = codeIdOf(email);
  const record = ctx.view.get('login_code', id);
  const now = ctx.clock.now().getTime();
  const { address: source } = ctx.request;
  const asking = { source, now, known: record?.desired.known };
  const failures = countedWith(within(record?.desired.failed, dayMs, now), asking);
  const [first] = failures;
  if (first !== undefined && failures.length >= failuresPerDay)
    throw tooMany('Too many wrong codes were tried for this address today', secondsUntil(first, dayMs, now));
  const code = record && codeFor(record.desired, source, now);
  const matches = ctx.shortSecrets.matches(code?.hash ?? '', ownerOf(ctx, id), given.replaceAll(/\s/g, ''));
  return { isRight: matches, at: record && code && { record, hash: code.hash } };
}

/**
 * Removes the code in the unit, which commits only if no other request used it. From now on this place is a known one.
 */
export function useUp({ clock, request }: Context, unit: Unit, { at }: JudgedCode): void {
  if (at === undefined) return;
  const { address: source } = request;
  const now = clock.now().getTime();
  unit.change(at.record, (draft) => {
    draft.codes = draft.codes.filter(({ hash }) => hash !== at.hash);
    draft.failed = draft.failed.filter((it) => it.source !== source);
    draft.known = knownWith({ source, now, known: draft.known });
  });
}

/** Counts a wrong guess; the fifth removes the code. @throws conflict: then judge the guess again. */
export async function countFailure(
  { clock, request, repo }: Pick<Context, 'clock' | 'request'> & { repo: Pick<Repository, 'begin'> },
  { at }: JudgedCode,
): Promise<void> {
  if (at === undefined) return;
  const { address: source } = request;
  const now = clock.now();
  const unit = repo.begin();
  unit.change(at.record, (draft) => {
    draft.failed = [...within(draft.failed, dayMs, now.getTime()), { source, at: now.toISOString() }];
    for (const code of draft.codes) {
      if (code.hash !== at.hash) continue;
      if (code.source === source) code.failures += 1;
      else code.failures_elsewhere += 1;
    }
    draft.codes = draft.codes.filter((code) => code.failures < maxFailures);
  });
  await commit(unit);
}

/** @throws ApiError TOO_MANY_REQUESTS */
function requirePatience(sent: Places, asking: Asking): void {
  const { source, now } = asking;
  const fromHere = within(sent, hourMs, now).filter((it) => it.source === source);
  const last = fromHere.at(-1);
  if (last !== undefined && now - Date.parse(last.at) < pauseMs)
    throw tooMany('A code was sent to this address within the last minute', secondsUntil(last, pauseMs, now));
  const [firstOfHour] = fromHere;
  if (firstOfHour !== undefined && fromHere.length >= perHour)
    throw tooMany('Too many codes were sent to this address', secondsUntil(firstOfHour, hourMs, now));
  const ofDay = countedWith(sent, asking);
  const [firstOfDay] = ofDay;
  if (firstOfDay !== undefined && ofDay.length >= sentPerDay)
    throw tooMany('Too many codes were sent to this address today', secondsUntil(firstOfDay, dayMs, now));
}

function codeFor(record: CodeRecord, source: string, now: number): Code | undefined {
  const live = liveCodes(record, now);
  const own = live.find((it) => it.source === source);
  if (own !== undefined) return own;
  const known = new Set(record.known.map((it) => it.source));
  const open = live.filter((it) => it.failures_elsewhere < maxFailures);
  return open.findLast((it) => known.has(it.source)) ?? open.at(-1);
}

function liveCodes(record: CodeRecord | undefined, now: number): Code[] {
  return (record?.codes ?? []).filter((it) => Date.parse(it.expires_at) > now);
}

/** Removes the oldest code of an unknown place if there is no room for one more. */
function withRoom(codes: readonly Code[], record: CodeRecord | undefined): Code[] {
  if (codes.length < maxCodes) return [...codes];
  const known = new Set(record?.known.map((it) => it.source));
  const oldest = codes.find((it) => !known.has(it.source)) ?? codes[0];
  return codes.filter((it) => it !== oldest);
}

function ownerOf({ tenant }: Context, id: string): string {
  return `${tenant}/login_code/${id}`;
}

function sixDigits({ random }: Context): string {
  for (;;) {
    const drawn = random.bytes(4).readUInt32BE();
    // reject numbers above the last whole million: they would make some codes likelier than others
    if (drawn < 4_294_000_000) return String(drawn % 1_000_000).padStart(6, '0');
  }
}
