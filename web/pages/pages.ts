import { applicationByIdDescriptor, applicationDescriptor } from './application/descriptor.ts';
import { deploymentByIdDescriptor, deploymentDescriptor } from './deployment/descriptor.ts';
import { inviteDescriptor } from './invite/descriptor.ts';
import { logsDescriptor } from './logs/descriptor.ts';
import { newApplicationDescriptor } from './new-application/descriptor.ts';
import type { PageDescriptor } from './page.ts';
import { projectDescriptor, projectSettingsDescriptor } from './project/descriptor.ts';
import { projectsDescriptor } from './projects/descriptor.ts';
import { serverDescriptor, serversDescriptor } from './servers/descriptor.ts';
import { welcomeDescriptor } from './welcome/descriptor.ts';

/** Every page of the console, in the order in which an address is looked for. */
export const pages: readonly PageDescriptor[] = [
  projectsDescriptor,
  newApplicationDescriptor,
  projectSettingsDescriptor,
  projectDescriptor,
  deploymentDescriptor,
  deploymentByIdDescriptor,
  applicationDescriptor,
  applicationByIdDescriptor,
  logsDescriptor,
  serversDescriptor,
  serverDescriptor,
  welcomeDescriptor,
  inviteDescriptor,
];
