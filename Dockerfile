# fleetplan as a command in a container that runs as nobody in particular:
#   docker build --tag fleetplan .
#   docker run --rm --volume "$PWD:/data" --user "$(id -u):$(id -g)" fleetplan plan demand.yaml --out plan.json
# For `verify` and Parquet files add --build-arg 'EXTRAS=[verify,parquet]' (340 MB more); packages from an index of your own:
# --build-arg PIP_INDEX_URL=https://...
FROM python:3.12-slim AS build
ARG PIP_INDEX_URL
ARG EXTRAS=
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY planner planner
COPY problems problems
COPY solvers solvers
RUN python -m venv /opt/fleetplan && /opt/fleetplan/bin/pip install --no-cache-dir --no-compile ".$EXTRAS"

FROM python:3.12-slim
LABEL org.opencontainers.image.title="fleetplan" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --create-home fleetplan
COPY --from=build /opt/fleetplan /opt/fleetplan
ENV PATH=/opt/fleetplan/bin:$PATH PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/tmp/numba
USER 10001
WORKDIR /data
ENTRYPOINT ["fleetplan"]
CMD ["--help"]
