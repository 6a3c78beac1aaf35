/** The network that the steps of a build run in, alone; its bridge is of those that the rules of the kernel know. */
export function buildNetwork(assignment: string): string {
  return `sp-b${assignment.replaceAll('-', '').slice(0, 11)}`;
}
