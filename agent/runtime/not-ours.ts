/** Why a volume without the labels of an agent is not removed, and what to do. */
export function notOurs(volume: string): string {
  return `Cannot remove volume ${volume}: it was not made by an agent. If nothing else needs it, remove it on its server: docker volume rm ${volume}`;
}
