# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/python:3.12-slim AS build
WORKDIR /app
RUN python -m venv /venv
# Packages first: this layer stays as long as their list does
COPY requirements.txt ./
RUN /venv/bin/pip install --no-cache-dir --disable-pip-version-check -r requirements.txt

# What runs: no rights, no files of root
FROM ${BASE_REGISTRY}/python:3.12-slim
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/venv/bin:$PATH VIRTUAL_ENV=/venv
ENV HOME=/tmp
COPY --from=build /venv /venv
COPY --chown=10001:10001 . /app
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["sh", "-c", "exec gunicorn --bind \"0.0.0.0:${PORT:-8000}\" app:app"]
