import { describeApplications } from '../harness/application-life.ts';

describeApplications('sqlite');
