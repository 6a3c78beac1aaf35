// SCRAM-SHA-256 (RFC 5802, RFC 7677): the engine keeps what it knows of passwords, and checks the proof of the client.
import { randomBytes } from 'node:crypto';
import { Binary } from 'bson';
import { CommandError } from './command-error.mjs';

const refused = () => new CommandError(18, 'AuthenticationFailed', 'Authentication failed.');
const textOf = ({ payload }) => Buffer.from(payload.buffer).toString('utf8');
const said = (text, done) => ({ conversationId: 1, done, payload: new Binary(Buffer.from(text)), ok: 1 });

/** The login of one connection. */
export class Login {
  /** Who is logged in. */
  user;
  #engine;
  #begun;

  constructor(engine) {
    this.#engine = engine;
  }

  /** The first words of a client: its name and its half of the nonce. */
  async start(command) {
    if (command.mechanism !== 'SCRAM-SHA-256')
      throw new CommandError(334, 'MechanismUnavailable', `Log in by SCRAM-SHA-256, not by ${command.mechanism}`);
    const [, bare, name, half] = /^n,[^,]*,(n=([^,]*),r=(.+))$/.exec(textOf(command)) ?? [];
    if (bare === undefined) throw refused();
    const user = name.replaceAll('=2C', ',').replaceAll('=3D', '=');
    const known = await this.#engine.document(
      'SELECT documentdb_api_internal.scram_sha256_get_salt_and_iterations($1)',
      user,
    );
    if (Number(known.ok) !== 1) throw refused();
    const nonce = half + randomBytes(18).toString('base64');
    const first = `r=${nonce},s=${known.salt},i=${Number(known.iterations)}`;
    this.#begun = { user, nonce, words: `${bare},${first}` };
    return said(first, false);
  }

  /** Its proof that it knows the password. */
  async finish(command) {
    if (this.user !== undefined) return said('', true);
    const [, rest, nonce, proof] = /^(c=[^,]*,r=([^,]*)),p=(.+)$/.exec(textOf(command)) ?? [];
    const begun = this.#begun;
    this.#begun = undefined;
    if (begun === undefined || nonce !== begun.nonce) throw refused();
    const checked = await this.#engine.document(
      'SELECT documentdb_api_internal.authenticate_with_scram_sha256($1, $2, $3)',
      begun.user,
      `${begun.words},${rest}`,
      proof,
    );
    if (Number(checked.ok) !== 1) throw refused();
    this.user = begun.user;
    return said(`v=${checked.ServerSignature}`, true);
  }
}
