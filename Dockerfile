# The two images of a release: `operator`, and `spark-app` for drivers and executors. docs/how-to/images.md has the commands.
#
# It installs what the tests ran with: the packages of requirements/*.lock by their hashes, and the wheel of `make dist`.
# Packages come first, in stages of their own, so that a new wheel changes only the last layer of an image. Nothing runs
# in the final stages, so nothing of the machine that builds stays in them.

# A release gives both with their digests, NAME:TAG@sha256:… (.github/workflows/release.yml looks them up).
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG SPARK_IMAGE=apache/spark:4.3.0-python3

FROM ${PYTHON_IMAGE} AS operator-packages
COPY requirements/operator.lock /build/
RUN python3 -m venv --without-pip /opt/venv \
 && python3 -m pip --python /opt/venv/bin/python install \
        --no-cache-dir --only-binary :all: --require-hashes -r /build/operator.lock

FROM operator-packages AS operator-wheel
ARG VERSION
COPY dist/dynamic_kafka-${VERSION}-py3-none-any.whl /build/
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-index --no-deps --no-warn-script-location \
        --root /staged /build/*.whl \
 && cp -a /staged/. / && python3 -m pip --python /opt/venv/bin/python check

FROM ${PYTHON_IMAGE} AS operator
ARG PYTHON_IMAGE
ARG VERSION
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="kafkastream-operator" \
      org.opencontainers.image.description="The operator of KafkaStreams: many Kafka clusters, one Spark stream" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1
USER 65532:65532
ENTRYPOINT ["python", "-m", "kafkastream_operator"]
COPY --from=operator-packages /opt/venv /opt/venv
COPY --from=operator-wheel /staged /

FROM ${SPARK_IMAGE} AS spark-packages
USER root
COPY requirements/spark-image.lock /build/
# The image's own PySpark is used: a .pth file adds it to the environment, for commands that run without spark-submit. Its
# archives are written anew with bytecode: without it, each planner and each worker compiles PySpark when it starts.
RUN python3 -c 'import sys; sys.version_info >= (3, 11) or sys.exit("SPARK_IMAGE has Python " + sys.version.split()[0] \
        + ", and 3.11 or newer is needed: take the image of Spark 4.3 or newer")' \
 && python3 -m venv --without-pip /opt/venv \
 && python3 -m pip --python /opt/venv/bin/python install \
        --no-cache-dir --only-binary :all: --require-hashes -r /build/spark-image.lock \
 && printf '%s\n' "$SPARK_HOME"/python/lib/*.zip > "$(echo /opt/venv/lib/python3*/site-packages)/spark.pth" \
 && cd "$(mktemp -d)" \
 && for archive in "$SPARK_HOME"/python/lib/*.zip; do \
        python3 -m zipfile -e "$archive" . \
     && python3 -W ignore -m compileall -q -b -d "$archive" --invalidation-mode unchecked-hash . \
     && python3 -m zipfile -c "$archive" * \
     && rm -r * || exit 1; \
    done

FROM spark-packages AS spark-wheel
ARG VERSION
COPY dist/dynamic_kafka-${VERSION}-*.whl /build/
# The wheel with the native reader where it fits the platform, else the pure one.
# /opt/dynamic_kafka is a path for SparkApplications that does not depend on Python's version.
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-index --no-deps --no-warn-script-location \
        --root /staged --find-links /build "dynamic-kafka==${VERSION}" \
 && cp -a /staged/. / && python3 -m pip --python /opt/venv/bin/python check \
 && ln -s /opt/venv/lib/python3*/site-packages/dynamic_kafka /staged/opt/dynamic_kafka

FROM ${SPARK_IMAGE} AS spark-app
ARG SPARK_IMAGE
ARG VERSION
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="dynamic-kafka" \
      org.opencontainers.image.description="Spark with the data source and the application dynamic-kafka" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${SPARK_IMAGE}"
ENV PATH=/opt/venv/bin:$PATH \
    PYSPARK_PYTHON=/opt/venv/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/venv/bin/python \
    PYTHONDONTWRITEBYTECODE=1
# By number: Kubernetes' runAsNonRoot accepts no name. It is the user `spark` of Spark's image.
USER 185:185
COPY --from=spark-packages /opt/venv /opt/venv
COPY --from=spark-packages $SPARK_HOME/python/lib $SPARK_HOME/python/lib
COPY --from=spark-wheel /staged /
