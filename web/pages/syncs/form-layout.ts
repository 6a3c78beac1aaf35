import type { FieldWords, FormLayout } from '../../parts/schema-form.tsx';

const words: Readonly<Record<string, FieldWords>> = {
  name: { label: 'Name', placeholder: 'shop' },
  repository_url: { label: 'Repository', placeholder: 'https://git.example.org/shop.git' },
  branch: { label: 'Branch', placeholder: 'main' },
  tag_pattern: {
    label: 'Tags',
    placeholder: 'v1.*',
    help: 'In place of a branch: the tag with the newest version is followed. * stands for any characters.',
  },
  path: {
    label: 'Path',
    placeholder: 'deploy',
    help: 'A file, or a folder whose YAML and JSON files are read. Empty: all of the repository.',
  },
  git_credential_id: { label: 'Credential', help: 'What the repository is read with.' },
  environment_id: { label: 'Environment', help: 'Where objects are that name no environment.' },
  server_id: { label: 'Server', help: 'Its agent reads the repository: the control plane runs no git.' },
  interval_seconds: {
    label: 'Looks at the repository every',
    control: 'duration',
    placeholder: '3m',
    help: 'From 30s to 1d. A webhook makes it look at once.',
  },
  prune: {
    label: 'Delete what is not declared any more',
    help: 'Of what it made itself. Data goes only after a person has agreed.',
  },
  drift: {
    label: 'What becomes of changes by hand',
    help: '',
    options: { warn: 'They are shown', correct: 'They are changed back' },
  },
  variables: { label: 'Variables', help: 'What stands in the files for ${vars.NAME}.' },
  is_paused: { label: 'Begin paused', help: 'The repository is not looked at until it is resumed.' },
};

const repository = {
  title: 'Repository',
  fields: ['repository_url', 'branch', 'tag_pattern', 'path', 'git_credential_id'],
};
const place = { title: 'Place', fields: ['environment_id', 'server_id'] };
const values = { title: 'Values', fields: ['variables'] };
const manner = { title: 'Manner', fields: ['interval_seconds', 'prune', 'drift'] };

/** The order and the words of a new sync; which fields there are, the served schema says. */
export const newSyncLayout: FormLayout = {
  groups: [
    { title: 'Sync', fields: ['name'] },
    repository,
    place,
    values,
    { ...manner, fields: [...manner.fields, 'is_paused'] },
  ],
  words,
  // secrets are set by the command, which reads them from no argument
  hidden: ['project_id', 'secrets'],
};

/** The order and the words of the settings of a sync. */
export const syncSettingsLayout: FormLayout = {
  groups: [{ title: 'Sync', fields: ['name'] }, repository, place, values, manner],
  words,
  // verbs of the page and of the command change these
  hidden: ['is_paused', 'take_over', 'secrets', 'pinned_commit'],
};
