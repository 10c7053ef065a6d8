FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels '.[server,mcp]'

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 agentmem && mkdir /data && chown agentmem /data
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels 'agentmem-loop[server,mcp]'
USER agentmem
VOLUME /data
ENV AGENTMEM_STORE=/data/memory.db
EXPOSE 7077
HEALTHCHECK --interval=30s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:7077/healthz', timeout=2)"]
CMD ["agentmem", "serve", "--host", "0.0.0.0"]
