# Another registry for the base images: give the build argument BASE_REGISTRY, such as registry.example.com/mirror
ARG BASE_REGISTRY=docker.io/library
FROM ${BASE_REGISTRY}/python:3.13-slim AS build
WORKDIR /app
RUN python -m pip install --no-cache-dir --disable-pip-version-check --break-system-packages uv
ENV UV_PROJECT_ENVIRONMENT=/venv UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy
# Packages first: this layer stays as long as their list does
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-dev --no-install-project

# What runs: no rights, no files of root
FROM ${BASE_REGISTRY}/python:3.13-slim
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/venv/bin:$PATH VIRTUAL_ENV=/venv
ENV HOME=/tmp
COPY --from=build /venv /venv
COPY --chown=10001:10001 . /app
WORKDIR /app
ENV PORT=3000
EXPOSE 3000
USER 10001:10001
CMD ["sh", "-c", "exec uvicorn main:app --host 0.0.0.0 --port \"${PORT:-8000}\""]
