# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/maven:3.9-eclipse-temurin-17 AS build
USER root
WORKDIR /app
# Packages first: this layer stays as long as their list does
COPY pom.xml ./
RUN mvn --batch-mode --quiet dependency:go-offline
COPY . .
RUN mvn --batch-mode -DskipTests package
RUN find target -maxdepth 1 '(' -name '*-jar-with-dependencies.jar' -o -name '*-all.jar' ')' > /tmp/jars && if test ! -s /tmp/jars; then find target -maxdepth 1 -name '*.jar' ! -name '*-plain.jar' ! -name '*-sources.jar' ! -name '*-javadoc.jar' ! -name '*-tests.jar' ! -name 'original-*' > /tmp/jars; fi && if test "$(wc -l < /tmp/jars)" != 1; then echo "$(wc -l < /tmp/jars) jars in target, one is expected: $(head -n 5 /tmp/jars)" >&2; exit 1; fi && cp "$(cat /tmp/jars)" /app.jar

# What runs: one jar, no rights
FROM ${BASE_REGISTRY}/eclipse-temurin:17-jre
ENV HOME=/tmp
COPY --from=build /app.jar /app/app.jar
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["sh", "-c", "exec java -XX:MaxRAMPercentage=75 -Dserver.port=$PORT -jar /app/app.jar"]
