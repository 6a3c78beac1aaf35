/** Names of processors as images have them. */
const architectures: Partial<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** What to do where a container cannot be made or started; the first match counts. */
const remedies: readonly { text: RegExp; remedy: string }[] = [
  {
    text: /no command specified/i,
    remedy: 'the image says of no program to start. Set start_command, or add CMD to its Dockerfile',
  },
  {
    text: /exec format error/i,
    remedy: `the program is for another processor than that of the server, or is a script without #! in its first line. Use an image for linux/${architectures[process.arch] ?? process.arch}, or begin the script with #!/bin/sh`,
  },
  {
    text: /executable file not found/i,
    remedy: 'the image has no such program. Correct start_command, or CMD of its Dockerfile',
  },
  {
    text: /\bexec\b.*no such file or directory/i,
    remedy:
      'the image has no such file, or none by the name in its first line: lines of a script must not end as in Windows',
  },
  {
    text: /\bexec\b.*operation not permitted/i,
    remedy:
      'the file has a capability of the kernel (see getcap FILE) that containers do not have. An administrator can grant it: setpoint grant APPLICATION NET_RAW',
  },
  { text: /\bexec\b.*permission denied/i, remedy: 'the file is not executable. Set its mode, as by RUN chmod +x FILE' },
];

/** What to do about a program that cannot be started, by what the engine, or the first process of a container, says of it. */
export function remedyOf(message: string): string | undefined {
  return remedies.find(({ text }) => text.test(message))?.remedy;
}
