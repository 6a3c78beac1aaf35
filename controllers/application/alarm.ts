import type { ApplicationTrouble } from '../../store/kinds/application.ts';
import { mainService } from '../../agent-protocol/workload.ts';
import { loopOf } from '../rollout/last-exit.ts';
import { isOfAny, servicesOf } from '../rollout/services.ts';
import { isCrashLooping } from '../rollout/slots.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { NotificationInput } from '../runtime/controller.ts';
import type { State } from './states.ts';
import type { World } from './world.ts';
import { isActive } from './world.ts';

/** What users know of the trouble of an application, and what they are to be notified of now. */
export interface Alarm {
  notified: ApplicationTrouble[];
  notification?: NotificationInput;
}

/**
 * Users are notified of each kind of trouble once, whatever came before it, and of the end of all of it. A process that
 * keeps exiting is no less in trouble while it is ready for a moment, and one that came to its end as it is meant to is
 * in none. Pure. Nothing is notified while it is not known
 * what runs, as the server's controller notifies of that, nor during a deployment, which has notifications of its own.
 */
export function alarmOf(world: World, now: State): Alarm {
  const { app, target, serving } = world;
  const before = [...(app.observed?.notified ?? [])];
  if (app.desired.run === 'stopped' || serving === undefined || now.phase === 'deleting') return { notified: [] };
  if (now.reason === 'Completed') return { notified: [] };
  if (isUnknown.has(now.reason) || (target !== undefined && isActive(target))) return { notified: before };
  const services = servicesOf(app, serving);
  const looping = world.slots.filter((it) => isOfAny(it, services) && isCrashLooping(it));
  const troubles: ApplicationTrouble[] = [];
  if (now.phase === 'error' || now.reason === 'Exited') troubles.push('down');
  if (looping.length > 0) troubles.push('crash_loop');
  const begun = troubles.filter((it) => !before.includes(it));
  if (begun.length > 0)
    return { notified: [...before, ...begun], notification: troubleOf(app.desired.name, now, looping) };
  const isOver = before.includes('crash_loop') ? isWhole : isServing;
  if (before.length === 0 || troubles.length > 0 || !isOver.has(now.reason)) return { notified: before };
  const title = `${app.desired.name} serves again`;
  return {
    notified: [],
    notification: { type: 'application_recovered', severity: 'info', title, message: now.message },
  };
}

const isUnknown: ReadonlySet<string> = new Set(['ServerOffline', 'EngineNotReady']);
const isWhole: ReadonlySet<string> = new Set(['Running', 'RolloutFailed']);
const isServing: ReadonlySet<string> = new Set([...isWhole, 'Covered', 'Degraded']);

function troubleOf(name: string, now: State, looping: readonly Assignment[]): NotificationInput {
  const type = 'application_error';
  const [first] = looping;
  // the last lines are in a paragraph of their own
  const output = looping.map((it) => it.observed?.last_output).find((it) => it !== undefined);
  const lines = output === undefined ? '' : `\n\n${output}`;
  const isLoop = now.reason === 'CrashLoop';
  const what = isLoop ? `${loopOf(looping).how}: its log shows why` : now.message;
  if (now.reason === 'Exited')
    return { type, severity: 'error', title: `${name} ended with a failure`, message: `${now.message}${lines}` };
  if (now.phase === 'error' || first === undefined)
    return { type, severity: 'error', title: `${name} does not serve any more`, message: `${what}${lines}` };
  const { service } = first.desired;
  const which = service === mainService ? 'An instance' : `An instance of service ${service}`;
  const message = isLoop ? `${what}${lines}` : `${which} keeps exiting: ${what}${lines}`;
  return { type, severity: 'warning', title: `A process of ${name} keeps exiting`, message };
}
