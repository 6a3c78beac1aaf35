import { from, homeLine, portLines, user } from './recipe.ts';

const defaultPort = 8080;
/** A name with a hash before its ending, as many tools write them. */
const hashedName = String.raw`\.[0-9a-f]{8,64}\.[A-Za-z0-9]{1,8}$`;

/**
 * The last stage of a site: its files behind a small web server. `copy`: what COPY takes them from. `hashed`: paths of
 * files whose content never changes, as their names do.
 */
export function siteLines(it: { copy: string; hashed: readonly string[]; port: number | undefined }): string[] {
  const lines = configuration(it.hashed).map((line) => `  '${line}' \\`);
  return [
    '# What runs: files behind a web server, no rights',
    from('caddy:2-alpine'),
    '# Compression; what has a hash in its name is kept for good, all else is asked for anew; a path without an ending that',
    '# is no file gets index.html, unless there is a 404.html',
    "RUN mkdir -p /etc/caddy && printf '%s\\n' \\",
    ...lines,
    '  > /etc/caddy/Caddyfile',
    `COPY ${it.copy} /srv`,
    homeLine,
    'ENV XDG_CONFIG_HOME=/tmp XDG_DATA_HOME=/tmp',
    ...portLines(it.port ?? defaultPort),
    `USER ${user}`,
    'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]',
    '',
  ];
}

/** The settings of the web server: lines without quotes. */
function configuration(hashed: readonly string[]): string[] {
  return [
    '{',
    '  admin off',
    '  auto_https off',
    '  persist_config off',
    '}',
    `:{$PORT:${defaultPort}} {`,
    '  root * /srv',
    '  encode zstd gzip',
    '  header -Server',
    '  header X-Content-Type-Options nosniff',
    '  header >Cache-Control no-cache',
    ...hashed.map((path) => `  header ${path} >Cache-Control "public, max-age=31536000, immutable"`),
    `  @hashed path_regexp ${hashedName}`,
    '  header @hashed >Cache-Control "public, max-age=31536000, immutable"',
    '  @hidden {',
    String.raw`    path_regexp /\.`,
    '    not path /.well-known/*',
    '  }',
    '  error @hidden 404',
    '  @page {',
    '    not file {path} {path}.html {path}/index.html',
    '    not file /404.html',
    String.raw`    not path_regexp /\.|\.[A-Za-z0-9]{1,8}$`,
    '  }',
    '  rewrite @page /index.html',
    '  try_files {path} {path}.html',
    '  file_server',
    '  handle_errors {',
    '    header Cache-Control no-cache',
    '    @own file /404.html',
    '    handle @own {',
    '      rewrite * /404.html',
    '      file_server',
    '    }',
    '    respond "{err.status_code} {err.status_text}"',
    '  }',
    '}',
  ];
}
