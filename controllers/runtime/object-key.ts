/** Names an object in the queue of its kind's controller: tenant and id. */
export function keyOf(tenant: string, id: string): string {
  return `${tenant}/${id}`;
}

/** The parts of such a key. */
export function partsOf(key: string): { tenant: string; id: string } {
  const at = key.indexOf('/');
  return { tenant: key.slice(0, at), id: key.slice(at + 1) };
}
