# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/rust:1.79-bookworm AS build
WORKDIR /app
# Packages first, for an empty program: this layer stays as long as their list does
COPY Cargo.toml Cargo.lock ./
RUN mkdir src && echo 'fn main() {}' > src/main.rs && cargo build --release --locked && rm -rf src
COPY . .
RUN touch src/main.rs && cargo build --release --locked
RUN install -D target/release/shop /out/program

# What runs: the program alone, no rights
FROM ${BASE_REGISTRY}/debian:bookworm-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/program /app/program
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["/app/program"]
