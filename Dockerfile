# An image of Holdfast: `docker build -t holdfast .`, then
# `docker run -v $PWD:/app -p 127.0.0.1:3001:3001 holdfast`. More in docs/guides/containers.md.

FROM python:3.13-slim AS build
WORKDIR /source
COPY requirements/run.txt requirements/run.txt
RUN python -m venv /opt/holdfast \
    && /opt/holdfast/bin/pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY . .
# The page of the dashboard is built with a Node that pip fetches for the build alone.
RUN /opt/holdfast/bin/pip install --no-cache-dir --no-deps . \
    && /opt/holdfast/bin/pip uninstall -y pip

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 holdfast \
    && install -d -o holdfast -g holdfast /app /var/lib/holdfast
COPY --from=build /opt/holdfast /opt/holdfast
ENV PATH=/opt/holdfast/bin:$PATH \
    HOLDFAST_STATE_DIR=/var/lib/holdfast \
    PYTHONDONTWRITEBYTECODE=1
USER holdfast
WORKDIR /app
VOLUME /var/lib/holdfast
EXPOSE 8081 3001
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD ["holdfast", "health"]
CMD ["holdfast", "up"]
