/** Where a dump comes from. */
export type DumpSource = 'file' | 'address' | 'server';

export interface ImportDraft {
  readonly source: DumpSource;
  readonly file: File | undefined;
  readonly address: string;
  /** Of a file below the folder for imports of its server. */
  readonly path: string;
}

/** Why nothing can be imported yet; `undefined` if it can be. */
export function whyNoImport({ source, file, address, path }: ImportDraft): string | undefined {
  switch (source) {
    case 'file':
      return file === undefined ? 'Choose a file first' : file.size === 0 ? 'The file is empty' : undefined;
    case 'address':
      return faultOfAddress(address.trim());
    case 'server':
      return path.trim() === '' ? 'Enter the path of the file first' : undefined;
  }
}

function faultOfAddress(text: string): string | undefined {
  if (text === '') return 'Enter the address first';
  if (!URL.canParse(text)) return 'An address is such as https://dumps.example.com/orders.dump';
  const { protocol, username, password } = new URL(text);
  if (protocol !== 'https:' && protocol !== 'http:') return 'An address begins with https://';
  return username === '' && password === '' ? undefined : 'An address has no user and no password: sign it';
}
