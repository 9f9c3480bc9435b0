# A service for one model folder, mounted at /models/model:
#
#   docker build -t longtail .
#   docker run --read-only --tmpfs /tmp -p 127.0.0.1:8000:8000 \
#     -v "$PWD/model:/models/model:ro" -v longtail-feedback:/feedback longtail
#
# docs/deploy.md says more. Kernels are compiled while the image is built: on x86 for processors with AVX2 (x86-64-v3,
# since about 2013). An older processor compiles its own at every start.

FROM python:3.12-slim AS build
ENV LONGTAIL_CACHE=/opt/longtail/kernels PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE ./
COPY longtail longtail
RUN python -m venv /opt/longtail \
    && /opt/longtail/bin/pip install -c constraints.txt ".[serve]"
# The kernels of training and of prediction of every model. The service reads them here and writes nothing.
RUN /opt/longtail/bin/longtail warm --portable

FROM python:3.12-slim
COPY --from=build /opt/longtail /opt/longtail
COPY docker/start.sh /usr/local/bin/longtail-start
RUN useradd --no-create-home --home-dir /nonexistent --uid 10001 longtail \
    && install -d -o longtail -g longtail /feedback \
    && chmod 755 /usr/local/bin/longtail-start
ENV PATH=/opt/longtail/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 LONGTAIL_CACHE=/opt/longtail/kernels
USER 10001
EXPOSE 8000
VOLUME /feedback
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/ready')"]
ENTRYPOINT ["longtail-start"]
CMD ["/models/model", "--feedback", "/feedback", "--no-learn"]
