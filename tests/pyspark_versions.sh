#!/usr/bin/env bash
# Run some tests of Spark with the lowest and the highest release of PySpark that the extra "spark" allows.
# A release is installed beside the environment, without its dependencies, and found first.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for release in "${@:-4.2.0 4.3.*}"; do
  for each in $release; do
    .venv/bin/pip install --quiet --no-deps --target "$folder/$each" "pyspark==$each"
    PYTHONPATH="$folder/$each" .venv/bin/python -c "import pyspark; print('PySpark', pyspark.__version__)"
    PYTHONPATH="$folder/$each" .venv/bin/pytest -q -p no:cacheprovider \
      tests/spark/source tests/spark/load/test_spark_load.py tests/spark/load/test_spark_load_tables.py tests/spark/stream/test_spark_stream.py
  done
done
