/** Nothing in it is a quote, a variable or an escape to the engine. */
const plain = /^[A-Za-z0-9_.-]+$/;
/** Ends so, or has a here-document: what is appended may become a part of its last instruction. */
const open = /[\\`]\s*$|<</;

/**
 * The Dockerfile with its labels as one instruction at the end: the engine makes a layer of every label that it is given
 * beside the Dockerfile. `undefined` where one cannot be appended for certain.
 */
export function labelledDockerfile(dockerfile: Buffer, labels: Readonly<Record<string, string>>): Buffer | undefined {
  const text = dockerfile.toString('latin1');
  const instructions = text.replaceAll(/^\s*#.*$/gm, '').trimEnd();
  const isPlain = Object.entries(labels).every(([name, value]) => plain.test(name) && plain.test(value));
  if (open.test(instructions) || !isPlain) return undefined;
  const pairs = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
  return Buffer.from(`${text}\nLABEL ${pairs.join(' ')}\n`, 'latin1');
}
