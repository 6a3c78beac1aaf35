/** Why a command is refused, by the number and the name that clients of MongoDB know it by. */
export class CommandError extends Error {
  constructor(code, codeName, message) {
    super(message);
    this.code = code;
    this.codeName = codeName;
  }
}
