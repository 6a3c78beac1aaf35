/** Name of the network that only the steps of this build run in. Its bridge is one that the kernel's rules cover. */
export function buildNetwork(assignment: string): string {
  return `sp-b${assignment.replaceAll('-', '').slice(0, 11)}`;
}
