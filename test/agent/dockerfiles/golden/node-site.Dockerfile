# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/node:24-slim AS base

FROM base AS build
WORKDIR /app
ENV CI=true
# Packages first: this layer stays as long as their list does
COPY package.json package-lock.json ./
RUN npm ci
COPY . .
RUN npm run build

# What runs: files behind a web server, no rights
FROM ${BASE_REGISTRY}/caddy:2-alpine
# Compression; what has a hash in its name is kept for good, all else is asked for anew; a path without an ending that
# is no file gets index.html, unless there is a 404.html
RUN mkdir -p /etc/caddy && printf '%s\n' \
  '{' \
  '  admin off' \
  '  auto_https off' \
  '  persist_config off' \
  '}' \
  ':{$PORT:8080} {' \
  '  root * /srv' \
  '  encode zstd gzip' \
  '  header -Server' \
  '  header X-Content-Type-Options nosniff' \
  '  header >Cache-Control no-cache' \
  '  header /assets/* >Cache-Control "public, max-age=31536000, immutable"' \
  '  @hashed path_regexp \.[0-9a-f]{8,64}\.[A-Za-z0-9]{1,8}$' \
  '  header @hashed >Cache-Control "public, max-age=31536000, immutable"' \
  '  @hidden {' \
  '    path_regexp /\.' \
  '    not path /.well-known/*' \
  '  }' \
  '  error @hidden 404' \
  '  @page {' \
  '    not file {path} {path}.html {path}/index.html' \
  '    not file /404.html' \
  '    not path_regexp /\.|\.[A-Za-z0-9]{1,8}$' \
  '  }' \
  '  rewrite @page /index.html' \
  '  try_files {path} {path}.html' \
  '  file_server' \
  '  handle_errors {' \
  '    header Cache-Control no-cache' \
  '    @own file /404.html' \
  '    handle @own {' \
  '      rewrite * /404.html' \
  '      file_server' \
  '    }' \
  '    respond "{err.status_code} {err.status_text}"' \
  '  }' \
  '}' \
  > /etc/caddy/Caddyfile
COPY --from=build /app/dist /srv
ENV HOME=/tmp
ENV XDG_CONFIG_HOME=/tmp XDG_DATA_HOME=/tmp
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
