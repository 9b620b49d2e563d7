FROM python:3.11-slim
WORKDIR /app
COPY requirements.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
# What GET /version/ tells: --build-arg REVISION="$(git rev-parse --abbrev-ref HEAD) $(git rev-parse HEAD)"
ARG REVISION=""
# Compiled here: compose.yaml makes the file system read-only.
RUN echo "$REVISION" > REVISION && python -m compileall -q . \
    && useradd --system gateway && mkdir -p /var/lib/gateway && chown gateway /var/lib/gateway
USER gateway
ENV GATEWAY_MODE=production GATEWAY_VAR_DIR=/var/lib/gateway HOST=0.0.0.0 PORT=8000
# The journal lives here: log entries that the database has not taken yet.
VOLUME /var/lib/gateway
EXPOSE 8000
HEALTHCHECK --interval=10s --start-period=60s CMD ["python", "-c", \
    "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', os.environ['PORT'], timeout=5); \
    c.request('GET', '/healthz'); assert c.getresponse().status == 200"]
# Longer than GATEWAY_GRACEFUL_TIMEOUT, so that streams end in good order: docker stop --time 70
STOPSIGNAL SIGTERM
CMD ["python", "manage.py", "serve"]
