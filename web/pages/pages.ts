import { accountDescriptor } from './account/descriptor.ts';
import { activityDescriptor } from './activity/descriptor.ts';
import { applicationByIdDescriptor, applicationDescriptor } from './application/descriptor.ts';
import { applyDescriptor } from './apply/descriptor.ts';
import { backupsDescriptor } from './backups/descriptor.ts';
import { databaseByIdDescriptor, databaseDescriptor } from './database/descriptor.ts';
import { databasesDescriptor } from './database-list/descriptor.ts';
import { deploymentByIdDescriptor, deploymentDescriptor } from './deployment/descriptor.ts';
import { functionByIdDescriptor, functionDescriptor } from './function/descriptor.ts';
import { functionsDescriptor } from './function-list/descriptor.ts';
import { galleryDescriptor } from './gallery/descriptor.ts';
import { inviteDescriptor } from './invite/descriptor.ts';
import { logsDescriptor } from './logs/descriptor.ts';
import { newApplicationDescriptor } from './new-application/descriptor.ts';
import { newDatabaseDescriptor } from './new-database/descriptor.ts';
import { newFunctionDescriptor } from './new-function/descriptor.ts';
import { newTemplateDescriptor } from './new-template/descriptor.ts';
import { membersDescriptor } from './members/descriptor.ts';
import { notificationsDescriptor } from './notifications/descriptor.ts';
import type { PageDescriptor } from './page.ts';
import { projectDescriptor, projectSettingsDescriptor } from './project/descriptor.ts';
import { projectsDescriptor } from './projects/descriptor.ts';
import { restoreDescriptor } from './restore/descriptor.ts';
import { serverDescriptor, serversDescriptor } from './servers/descriptor.ts';
import { settingsDescriptor } from './settings/descriptor.ts';
import { newSyncDescriptor, syncDescriptor, syncsDescriptor } from './syncs/descriptor.ts';
import { templateInstanceDescriptor } from './template-instance/descriptor.ts';
import { templateDescriptor } from './template/descriptor.ts';
import { templateInstancesDescriptor, templatesDescriptor } from './templates/descriptor.ts';
import { volumesDescriptor } from './volumes/descriptor.ts';
import { welcomeDescriptor } from './welcome/descriptor.ts';

/** Every page of the console, in the order in which an address is looked for. */
export const pages: readonly PageDescriptor[] = [
  projectsDescriptor,
  newApplicationDescriptor,
  newDatabaseDescriptor,
  newFunctionDescriptor,
  newSyncDescriptor,
  projectSettingsDescriptor,
  applyDescriptor,
  membersDescriptor,
  projectDescriptor,
  deploymentDescriptor,
  deploymentByIdDescriptor,
  applicationDescriptor,
  applicationByIdDescriptor,
  databaseDescriptor,
  databasesDescriptor,
  databaseByIdDescriptor,
  functionDescriptor,
  functionsDescriptor,
  functionByIdDescriptor,
  backupsDescriptor,
  restoreDescriptor,
  templatesDescriptor,
  newTemplateDescriptor,
  templateDescriptor,
  templateInstancesDescriptor,
  templateInstanceDescriptor,
  syncsDescriptor,
  syncDescriptor,
  logsDescriptor,
  serversDescriptor,
  serverDescriptor,
  volumesDescriptor,
  activityDescriptor,
  notificationsDescriptor,
  settingsDescriptor,
  accountDescriptor,
  galleryDescriptor,
  welcomeDescriptor,
  inviteDescriptor,
];
