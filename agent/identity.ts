import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { hashJoinToken, parseJoinToken } from '../agent-protocol/join-token.ts';
import { writeAtomically } from './disk/atomic-file.ts';
import { readIfThere } from './disk/read-if-there.ts';

const Stored = z.object({
  v: z.literal(1),
  server_id: z.uuid(),
  /** Ed25519, PKCS #8, PEM. */
  private_key: z.string(),
  /** Kept until the first welcome, so that a crash after the control plane accepted the token does no harm. */
  join_token: z.string().optional(),
  /** Hash of the last token that was used. If it is given again, its hash of the control plane's key is ignored. */
  used_token_hash: z.string().optional(),
  /** Hash of the control plane's key: from the join token, then from the welcomes. */
  control_key_hash: z.string().optional(),
});
type Stored = z.infer<typeof Stored>;

/** The agent's identity. The private key never leaves the file and this process. */
export interface Identity {
  readonly serverId: string;
  /** Ed25519, raw, base64url. */
  readonly publicKey: string;
  /** Present until the control plane has welcomed this key. */
  readonly joinToken: string | undefined;
  /** Hash (`hashControlKey`) of the key that the control plane must prove to hold; `undefined`: none is known yet. */
  readonly controlKeyHash: string | undefined;
  /** Returns the Ed25519 signature, base64url. */
  sign(bytes: Uint8Array): string;
  /**
   * The control plane has registered the key: forgets the join token. `controlKeyHash`: hash of the key to expect from
   * now on, if the control plane proved itself.
   */
  joined(controlKeyHash: string | undefined): Promise<void>;
}

/**
 * Opens the identity in `<folder>/identity.json` (readable by its owner only). If there is none, makes a key for the
 * server that the join token names, and stores both before anything is sent. A token for the server of a known identity
 * is kept for the next hello: it registers the key again if the control plane has lost it. A token that was not used
 * yet also replaces the hash of the control plane's key.
 *
 * @throws Error if there is neither an identity nor a token, if the token is for another server, or if the file is
 * damaged
 */
export async function openIdentity(folder: string, joinToken?: string): Promise<Identity> {
  const path = join(folder, 'identity.json');
  const wanted = joinToken === undefined ? undefined : serverOf(joinToken);
  const known = await read(path);
  if (known === undefined && joinToken === undefined)
    throw new Error(
      `The agent has no identity yet (${path}): make a join token by \`setpoint join SERVER\`, and run the command that it prints on this machine`,
    );
  if (known !== undefined && wanted !== undefined && known.server_id !== wanted)
    throw new Error(
      `The join token is for server ${wanted}, and this agent is that of server ${known.server_id}: use a token for that server, or another --data`,
    );
  let stored = known ?? make(wanted ?? '');
  if (joinToken !== undefined) {
    stored = withToken(stored, joinToken);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeAtomically(path, JSON.stringify(stored));
  }
  const key = createPrivateKey(stored.private_key);
  return {
    serverId: stored.server_id,
    publicKey: createPublicKey(key).export({ format: 'jwk' }).x ?? '',
    get joinToken() {
      return stored.join_token;
    },
    get controlKeyHash() {
      return stored.control_key_hash;
    },
    sign: (bytes) => sign(null, bytes, key).toString('base64url'),
    async joined(controlKeyHash) {
      const { join_token: token, ...rest } = stored;
      if (token === undefined && (controlKeyHash ?? rest.control_key_hash) === rest.control_key_hash) return;
      stored = {
        ...rest,
        ...(token !== undefined && { used_token_hash: hashJoinToken(token) }),
        ...(controlKeyHash !== undefined && { control_key_hash: controlKeyHash }),
      };
      await writeAtomically(path, JSON.stringify(stored));
    },
  };
}

/** The server that the agent with that data directory has joined or is to join; `undefined`: it has no identity. */
export async function serverOfIdentity(folder: string): Promise<string | undefined> {
  return (await read(join(folder, 'identity.json')))?.server_id;
}

function withToken(stored: Stored, token: string): Stored {
  if (stored.used_token_hash === hashJoinToken(token)) return { ...stored, join_token: token };
  const { control_key_hash: _, ...rest } = stored;
  const hash = parseJoinToken(token)?.controlKeyHash;
  return { ...rest, join_token: token, ...(hash !== undefined && { control_key_hash: hash }) };
}

function make(server: string): Stored {
  const { privateKey } = generateKeyPairSync('ed25519');
  return { v: 1, server_id: server, private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

function serverOf(joinToken: string): string {
  const parsed = parseJoinToken(joinToken);
  if (parsed === undefined) throw new Error('Join token must have the form sj_<server>_<secret>');
  return parsed.serverId;
}

async function read(path: string): Promise<Stored | undefined> {
  const text = await readIfThere(path).catch((cause: unknown) => {
    throw new Error(`Cannot read the identity of the agent: ${path}`, { cause });
  });
  if (text === undefined) return undefined;
  try {
    return Stored.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error(
      `The identity of the agent is damaged: ${path}. Restore the file, or join again with a join token and an empty data directory`,
      { cause },
    );
  }
}
