# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/golang:1.23 AS build
WORKDIR /app
ENV CGO_ENABLED=0
# Modules first: this layer stays as long as their list does
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN go build -trimpath -ldflags=-s -o /out/app/program ./cmd/server
# What programs expect of a system: a folder for temporary files, and the time zones
RUN mkdir -m 1777 /out/tmp && cp /usr/local/go/lib/time/zoneinfo.zip /out/

# What runs: the program alone, no rights
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out /
COPY templates /app/templates
ENV ZONEINFO=/zoneinfo.zip
ENV HOME=/tmp
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["/app/program"]
