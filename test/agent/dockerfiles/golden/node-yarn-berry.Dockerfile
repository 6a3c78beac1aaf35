# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/node:24-slim AS base
RUN npm install --global --force @yarnpkg/cli-dist@4.5.0
ENV YARN_NODE_LINKER=node-modules YARN_ENABLE_GLOBAL_CACHE=1

FROM base AS build
WORKDIR /app
ENV CI=true
# Packages first: this layer stays as long as their list does
COPY package.json yarn.lock .yarnrc.yml ./
RUN yarn install --immutable
COPY . .
RUN yarn run build

# What only the build needs goes
RUN yarn workspaces focus --all --production

# What runs: no rights, no files of root
FROM base
ENV NODE_ENV=production
ENV HOME=/tmp
COPY --from=build --chown=10001:10001 /app /app
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["node", "server.js"]
