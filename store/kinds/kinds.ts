import type { z } from 'zod';
import { application, deployment } from './application.ts';
import { assignment } from './assignment.ts';
import { loginCode, serviceKey, session, user } from './identity.ts';
import { invite, member } from './membership.ts';
import { notification, operation } from './operation.ts';
import { environment, project } from './project.ts';
import { server } from './server.ts';
import { settings } from './settings.ts';
import { sshKey } from './ssh-key.ts';
import { volume } from './volume.ts';

/** Every kind of object, by its name. */
export const kinds = {
  user,
  session,
  service_key: serviceKey,
  login_code: loginCode,
  project,
  environment,
  server,
  application,
  deployment,
  assignment,
  operation,
  notification,
  member,
  invite,
  settings,
  volume,
  ssh_key: sshKey,
} as const;

export type KindName = keyof typeof kinds;
export type DesiredOf<K extends KindName> = z.output<(typeof kinds)[K]['desired']>;
export type ObservedOf<K extends KindName> = z.output<(typeof kinds)[K]['observed']>;

export function isKindName(value: string): value is KindName {
  return Object.hasOwn(kinds, value);
}
