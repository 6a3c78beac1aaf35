# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/ruby:3.3 AS build
ENV BUNDLE_DEPLOYMENT=1 BUNDLE_PATH=/gems BUNDLE_WITHOUT=development:test
WORKDIR /app
# Gems first: this layer stays as long as their list does
COPY Gemfile Gemfile.lock .ruby-version ./
RUN bundle install
COPY . .
RUN SECRET_KEY_BASE_DUMMY=1 SECRET_KEY_BASE=unused RAILS_ENV=production bundle exec rails assets:precompile

# What runs: no rights, no files of root
FROM ${BASE_REGISTRY}/ruby:3.3-slim
RUN apt-get update && apt-get install --yes --no-install-recommends libpq5 && rm -rf /var/lib/apt/lists/*
ENV BUNDLE_DEPLOYMENT=1 BUNDLE_PATH=/gems BUNDLE_WITHOUT=development:test
ENV RAILS_ENV=production RAILS_LOG_TO_STDOUT=1 RAILS_SERVE_STATIC_FILES=1
ENV HOME=/tmp
COPY --from=build /gems /gems
COPY --from=build --chown=10001:10001 /app /app
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
ENTRYPOINT ["sh", "-c", "rm -f tmp/pids/server.pid && exec \"$@\"", "sh"]
CMD ["sh", "-c", "exec bundle exec rails server --binding 0.0.0.0 --port \"${PORT:-3000}\""]
