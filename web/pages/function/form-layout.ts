import type { FieldWords, FormLayout, Values } from '../../parts/schema-form.tsx';
import { runtimes } from './runtimes.ts';

const isCron = ({ trigger_type: trigger }: Values): boolean => trigger === 'cron';
const isHttp = (values: Values): boolean => !isCron(values);

const words: Readonly<Record<string, FieldWords>> = {
  name: { label: 'Name', placeholder: 'greeter' },
  runtime: {
    label: 'Runtime',
    options: Object.fromEntries(Object.entries(runtimes).map(([name, { label }]) => [name, label])),
  },
  trigger_type: { label: 'Called by', help: '', options: { http: 'Requests', cron: 'A schedule' } },
  exposed_port: {
    label: 'Port of its server',
    help: 'Empty: requests reach it by “Try it” and by the API alone.',
    placeholder: '8090',
  },
  schedule: { label: 'When', help: 'Five fields.' },
  timeout_seconds: { label: 'Seconds until the answer', placeholder: '30', help: 'Then its caller gets 504.' },
  min_instances: { label: 'Instances at least', placeholder: '0', help: 'They run also while nothing calls it.' },
  max_instances: { label: 'Instances at most', placeholder: '4', help: '' },
  concurrency: {
    label: 'Calls at a time',
    help: 'That one instance answers. Empty: 16, and 1 of Python.',
  },
  memory_limit: { label: 'Memory', control: 'memory', placeholder: '256m', help: 'Of one instance. Empty: 256m.' },
  cpu_limit: { label: 'Processors', control: 'cpu', placeholder: '0.5', help: 'Of one instance. Empty: 0.5.' },
};

const limits = ['timeout_seconds', 'min_instances', 'max_instances', 'concurrency', 'memory_limit', 'cpu_limit'];
const visibleWhen = { schedule: isCron, schedule_config: isCron, exposed_port: isHttp };
const trigger = { title: 'What calls it', fields: ['trigger_type', 'exposed_port', 'schedule', 'schedule_config'] };

/** The order and the words of a new function; which fields there are, the served schema says. */
export const newFunctionLayout: FormLayout = {
  groups: [
    { title: 'Function', fields: ['name', 'runtime', 'code', 'dependencies'] },
    trigger,
    { title: 'Place', fields: ['environment_id', 'server_id'] },
  ],
  words,
  // variables are set on the page of the function
  hidden: ['project_id', 'env'],
  visibleWhen,
};

/** The order and the words of the settings of a function. */
export const functionSettingsLayout: FormLayout = {
  groups: [{ title: 'Function', fields: ['name', 'runtime'] }, trigger, { title: 'Limits', fields: limits }],
  words,
  // other tabs change these
  hidden: ['code', 'dependencies', 'env'],
  visibleWhen,
};
