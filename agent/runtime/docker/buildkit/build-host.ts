/** Name of a host that the steps of a scope have beside those of their image. */
export function buildHost(scope: string): string {
  return `${scope}.builds.setpoint.internal`;
}
