/** One bridge network per environment: instances of different environments cannot reach each other. */
export function environmentNetwork(environmentId: string): string {
  return `sp-${environmentId.replaceAll('-', '').slice(0, 12)}`;
}
