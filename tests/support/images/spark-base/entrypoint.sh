#!/usr/bin/env bash
# How Spark on Kubernetes starts a driver or an executor in an image: the arguments and variables are its own.
set -euo pipefail
if [ $# = 0 ]; then set -- bash; fi
role=$1
case $role in
    driver)
        shift
        exec tini -s -- "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
            --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
            --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
        ;;
    executor)
        # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, … are one option each.
        options=()
        for ((n = 0; ; n++)); do
            name=SPARK_JAVA_OPT_$n
            [ -n "${!name+set}" ] || break
            options+=("${!name}")
        done
        exec tini -s -- "$JAVA_HOME/bin/java" "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
            -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*:${SPARK_EXTRA_CLASSPATH:-}:$PWD" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
            --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
    *) exec "$@" ;;
esac
