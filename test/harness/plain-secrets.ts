import type { Sealer, Unsealer } from '../../store/seal.ts';

/** In place of a keyring: values are in base64, and open only in the place that they were sealed for. */
export const plainSecrets: Sealer & Unsealer = {
  seal: (plain, { kind, id, path }) => ({
    $sealed: Buffer.from(plain).toString('base64'),
    for: `${kind}/${id}/${path}`,
  }),
  unseal(value, { kind, id, path }) {
    if (value.for !== `${kind}/${id}/${path}`) throw new Error(`A value of another place: ${value.for}`);
    return Buffer.from(value.$sealed, 'base64').toString();
  },
};
