#!/usr/bin/env bash
# run_benchmarks.sh [--small] [--report FOLDER]: every benchmark of build/dev once; fails where one fails or a result is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
small=() folder=''
while [ $# -gt 0 ]; do
  case $1 in
    --small) small=(--small) ;;
    --report) folder=$2; shift ;;
    *) echo "usage: run_benchmarks.sh [--small] [--report FOLDER]" >&2; exit 2 ;;
  esac
  shift
done
PERGOLA_COMMIT=$(git describe --always --dirty --abbrev=12)
export PERGOLA_COMMIT
for program in build/dev/bin/*_bench; do
  name=$(basename "$program" _bench)
  echo "── $name"
  timeout 600 "$program" "${small[@]}" ${folder:+--report "$folder/$name"}
done
if [ -n "${small[*]}" ]; then
  echo "── dag in tiles"
  timeout 600 build/dev/bin/dag_bench --small --tiles 5 --measure resident
fi
for name in launch dag; do
  echo "── python_$name"
  PYTHONPATH=build/dev/python timeout 600 /usr/bin/python3 "bench/$name/python_${name}_bench.py" "${small[@]}" \
    ${folder:+--report "$folder/python-$name"}
done
echo "── overlap"
timeout 600 python3 bench/dag/overlap.py --bytes "$([ -n "${small[*]}" ] && echo 1M || echo 100M)" \
  ${folder:+--report "$folder/dag-overlap"}
