import type { FormLayout } from '../../parts/schema-form.tsx';

/** The order and the words of the form of a server; the types come from the schema. */
export const serverLayout: FormLayout = {
  groups: [
    { fields: ['name', 'allowed_projects'] },
    {
      title: 'Reached by SSH',
      fields: ['ipAddress', 'ip_address', 'sshKeyId', 'ssh_key_id', 'username', 'port', 'host_key'],
    },
    { title: 'Web traffic', fields: ['ingress'] },
    { title: 'Ports and logs', fields: ['direct_ports_enabled', 'direct_ports', 'log_retention_days'] },
  ],
  words: {
    name: { placeholder: 'fsn1' },
    ipAddress: {
      label: 'Address',
      help: 'Name or IP of the machine. With a key below, the agent is installed from here.',
    },
    ip_address: { label: 'Address', help: 'Name or IP of the machine.' },
    username: { help: 'By default root.', placeholder: 'root' },
    port: { label: 'SSH port', placeholder: '22' },
    ingress: { label: 'Proxy', help: 'Leads domains to applications, with certificates of its own.' },
    direct_ports: { label: 'Ports that they may take' },
    direct_ports_enabled: { label: 'Applications may take ports of the server directly' },
    log_retention_days: { label: 'Days that logs are kept', placeholder: '7' },
    allowed_projects: { label: 'Projects that may use it' },
  },
};
