#!/usr/bin/env bash
# Spark's own bin/spark-submit, without a module that only Spark's machine learning is quicker by:
# Java tells of it on the terminal, in the first line of each command, and nothing silences that.
set +o posix  # where POSIXLY_CORRECT is set, no function may be called so
exec() {
  local given kept=()
  for given in "$@"; do
    [ "$given" = --add-modules=jdk.incubator.vector ] || kept+=("$given")
  done
  builtin exec "${kept[@]}"
}

export PYTHONHASHSEED=0
. "$SPARK_HOME"/bin/spark-class org.apache.spark.deploy.SparkSubmit "$@"
