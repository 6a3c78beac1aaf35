/** A secret does not open. The message is for people. */
export class Unopened extends Error {}
