# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/node:24-slim AS base

FROM base AS build
WORKDIR /app
ENV CI=true
# Packages first: this layer stays as long as their list does
COPY package.json package-lock.json ./
RUN npm ci
ARG API_URL
COPY . .
RUN npm run build

# What only the build needs goes
RUN npm prune --omit=dev --ignore-scripts

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
