import { header, type Language } from './recipe.ts';
import { siteLines } from './site-server.ts';

const listsOfPackages = ['package.json', 'package-lock.json', 'pnpm-lock.yaml', 'yarn.lock', 'bun.lock'];

/** Files to serve as they are. */
export const staticFiles: Language = async (files, { port }) => {
  for (const folder of ['.', 'public', 'dist', 'www'])
    if (await files.has(folder === '.' ? 'index.html' : `${folder}/index.html`))
      return {
        language: 'static',
        reasons: [
          folder === '.'
            ? 'index.html: the files of the repository are served'
            : `${folder}/index.html: the files of the folder ${folder} are served`,
        ],
        lines: [...header, ...siteLines({ copy: folder, hashed: [], port })],
        ignore: ['.git', '**/node_modules', 'Dockerfile*', '.dockerignore', '.gitignore', ...listsOfPackages],
      };
  return undefined;
};
