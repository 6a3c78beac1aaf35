import type { FormLayout, Values } from '../../parts/schema-form.tsx';

const isBuilt = ({ source_type: type, compose_path: path, repository_url: repository }: Values): boolean =>
  type === 'git' || (type === 'compose' && (typeof path === 'string' || typeof repository === 'string'));
const is =
  (...types: readonly string[]) =>
  ({ source_type: type }: Values): boolean =>
    types.includes(String(type));

/** The order and the words of an application's settings. Which there are, and their limits, the served schema says. */
export const settingsLayout: FormLayout = {
  groups: [
    { title: 'Application', fields: ['name', 'app_type', 'replicas', 'host_name'] },
    {
      title: 'Source',
      fields: [
        'source_type',
        'repository_url',
        'branch',
        'git_credential_id',
        'dockerfile_path',
        'build_context',
        'submodules',
        'image_url',
        'registry_id',
        'compose_path',
        'compose_service',
      ],
    },
    {
      title: 'Deployments from the branch',
      fields: ['autodeploy', 'autodeploy_interval', 'watch_paths'],
      visibleWhen: isBuilt,
    },
    { title: 'Running', fields: ['exposed_port', 'healthcheck_path', 'start_command', 'restart_policy'] },
    { title: 'Limits', fields: ['memory_limit', 'cpu_limit', 'shm_size', 'pids_limit'] },
    {
      title: 'Rollout',
      fields: ['max_surge', 'min_healthy_seconds', 'healthy_deadline', 'drain_seconds', 'stop_grace_seconds'],
    },
  ],
  words: {
    host_name: { label: 'Host name', help: 'A second name by which applications of the environment reach it.' },
    app_type: { label: 'Type', options: { web: 'Web: takes requests', worker: 'Worker', static: 'Static files' } },
    source_type: { label: 'From', options: { git: 'A git repository', image: 'An image', compose: 'A compose file' } },
    repository_url: { label: 'Repository', placeholder: 'https://git.example.com/shop.git' },
    branch: { label: 'Branch, tag or commit' },
    dockerfile_path: { label: 'Dockerfile', help: 'Path in the repository, or auto: one is generated.' },
    build_context: { label: 'Folder to build in' },
    image_url: { label: 'Image', placeholder: 'ghcr.io/owner/name:tag' },
    compose_path: { label: 'Compose file in the repository', placeholder: 'compose.yaml' },
    exposed_port: { label: 'Port', help: 'The port in the container that requests are for.' },
    healthcheck_path: { label: 'Path that shows it is ready', placeholder: '/healthz' },
    start_command: { label: 'Command', help: 'In place of the one of the image.' },
    memory_limit: { label: 'Memory', control: 'memory' },
    cpu_limit: { label: 'Processors', control: 'cpu' },
    shm_size: { label: 'Shared memory', control: 'memory' },
    autodeploy: { label: 'Deploy when the branch changes', help: '' },
    autodeploy_interval: { label: 'Seconds between two looks', help: 'From 60 on; 0: only a webhook leads to a look.' },
    watch_paths: { label: 'Only for changes in' },
    max_surge: { label: 'Instances beyond the wanted ones' },
    min_healthy_seconds: { label: 'Seconds that an instance stays ready before it counts' },
    healthy_deadline: { label: 'Seconds in which it must be ready' },
    drain_seconds: { label: 'Seconds for open connections' },
    stop_grace_seconds: { label: 'Seconds that a process has to end' },
  },
  // other tabs change these, or a form would show less than they hold
  hidden: [
    'env',
    'domains',
    'compose_file',
    'build_args',
    'build_secrets',
    'project_id',
    'environment_id',
    'server_id',
  ],
  visibleWhen: {
    repository_url: isBuilt,
    branch: isBuilt,
    git_credential_id: isBuilt,
    dockerfile_path: is('git'),
    build_context: is('git'),
    submodules: isBuilt,
    image_url: is('image'),
    registry_id: is('image', 'git'),
    compose_path: (values) => is('compose')(values) && isBuilt(values),
    compose_service: is('compose'),
    exposed_port: is('image', 'git'),
    healthcheck_path: is('image', 'git'),
    start_command: is('image', 'git'),
  },
};
