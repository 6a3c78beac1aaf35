/** Loaded before a program: when the program ends, writes the URLs of all modules that it loaded to `LIST_MODULES_IN`. */
import { writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const urls: string[] = [];
registerHooks({
  load(url, context, next) {
    urls.push(url);
    return next(url, context);
  },
});
process.on('exit', () => {
  const path = process.env['LIST_MODULES_IN'];
  if (path === undefined) return;
  // what Node itself has loaded: names such as `NativeModule internal/deps/undici/undici`
  const { moduleLoadList } = process as unknown as { moduleLoadList: readonly string[] }; // it is not in the typings
  writeFileSync(path, JSON.stringify({ urls, builtins: moduleLoadList }));
});
