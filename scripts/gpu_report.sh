#!/usr/bin/env bash
# gpu_report.sh: on a machine with an NVIDIA GPU, everything that only a GPU can show, in one run.
#
#   ./dev gpu-report            in a checkout that is built
#   ./report [FOLDER]           in the folder that ./dev gpu-bundle made
#
# Writes the reports into bench/reports/ (or FOLDER): conformance on every device, the PTX cases and the random kernels
# on GPU, interpreter and, where LLVM is, JIT; every arithmetic instruction on GPU and interpreter; random programs against
# the sequential order; Python's tests, where NumPy and pytest are; the benchmarks of single costs, of tasks, of narrow
# tasks and of six programs, and the GPU's counters in these; other libraries beside Pergola; the demonstration's picture
# on both devices.
# Every program runs under `timeout`. Ends with one line a part, and fails where one failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ ! -f "$here/bin.tar.gz" ] || [ -d "$here/bin" ] || tar -C "$here" -xzf "$here/bin.tar.gz" || exit 1
if [ -d "$here/bin" ]; then             # the bundle
  bin=$here/bin lib=$here/lib source=$here/source python=$here/python out=${1:-$here/reports}
  commit=$(cat "$source/COMMIT")
else
  root=$(dirname "$here")
  bin=$root/build/dev/bin lib=$root/build/dev/lib source=$root python=$root/build/dev/python out=${1:-$root/bench/reports}
  commit=$(git -C "$root" describe --always --dirty --abbrev=12)
fi
mkdir -p "$out"
export PERGOLA_SOURCE_DIR=$source PERGOLA_COMMIT=$commit
PERGOLA_CACHE_DIR=$(mktemp -d)
export PERGOLA_CACHE_DIR
trap 'rm -rf "$PERGOLA_CACHE_DIR"' EXIT
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1)
failed=0 summary=()

part() {  # part NAME SECONDS COMMAND...
  local name=$1 seconds=$2 start=$SECONDS
  shift 2
  printf '\n── %s: %s\n' "$name" "$*"
  { echo "# $(date -u +%F), $gpu, commit $commit: $*"; } >"$out/$name.log"
  if timeout -k 10 "$seconds" "$@" >>"$out/$name.log" 2>&1; then
    summary+=("ok      $name ($((SECONDS - start)) s)")
    tail -n 4 "$out/$name.log"
  else
    summary+=("FAILED  $name (exit $?, $((SECONDS - start)) s): $out/$name.log")
    tail -n 40 "$out/$name.log"
    failed=1
  fi
}

part doctor 60 "$bin/pergola" doctor
part img-cpu 300 env PERGOLA_DEVICE=cpu "$bin/img" "$source/examples/data/astronaut.png" "$out/img-cpu.png" "$source/examples/img/img.cu"
part img-cuda 300 env PERGOLA_DEVICE=cuda:0 "$bin/img" "$source/examples/data/astronaut.png" "$out/img-cuda.png" "$source/examples/img/img.cu"
part img-same 10 cmp "$out/img-cpu.png" "$out/img-cuda.png"
part conformance 900 "$bin/conformance_test" --report="$out/conformance-h200"
part ptx-cases 600 env PERGOLA_DEVICE=cuda:0 "$bin/ptx_cases_test"
part task-bodies 600 env PERGOLA_DEVICE=cuda:0 "$bin/tasks_test"
part task-cases 900 env PERGOLA_DEVICE=cuda:0 "$bin/task_cases_test"
part differential 900 env PERGOLA_DEVICE=cuda:0 PERGOLA_DIFFERENTIAL=1:1000 "$bin/differential_test"
part instruction-bits 900 "$bin/instruction_bits" --device=cuda:0 --cases=16384 --json="$out/instruction-bits-h200"
part litmus 600 env PERGOLA_DEVICE=cuda:0 PERGOLA_LITMUS_MS=1000 "$bin/litmus_test"
part dag 600 env PERGOLA_DEVICE=cuda:0 PERGOLA_DAG_PROGRAMS=300 "$bin/dag_test"
part chains 300 env PERGOLA_CHAINS_DEVICE=cuda:0 PERGOLA_CHAINS=3000 "$bin/lowered_chains_test" --gtest_filter='*HaveTheBits*'
part launch 300 env PERGOLA_DEVICE=cuda:0 "$bin/launch_bench" --report "$out/launch-h200"
part task 300 env PERGOLA_DEVICE=cuda:0 "$bin/task_bench" --report "$out/task-h200"
dag_bench() { part "dag-$1" "$2" env PERGOLA_DEVICE=cuda:0 "$bin/dag_bench" --kernels "$source/bench/dag/kernels.cu" "${@:3}" --report "$out/dag-$1-h200"; }
dag_bench turns 900 --bytes 10M,100M
dag_bench 1g 900 --bytes 1G
dag_bench 10g 1800 --bytes 10G --after-others     # an untimed turn before each timed one would bring nothing here
dag_bench 90-percent 1800 --memory-percent 90 --alone --measure resident
dag_bench blocks 900 --bytes 10M --block 32,64,128,256,512,1024
part dag-python 600 env PERGOLA_DEVICE=cuda:0 PYTHONPATH="$python" python3 "$source/bench/dag/python_dag_bench.py" --driver-chain "$lib/libdriver_chain.so" --report "$out/python-dag-h200"
part dag-summary 10 python3 "$source/bench/dag/summary.py" "$out"/dag-{turns,1g,10g,90-percent}-h200.json
part task-pool 300 env PERGOLA_DEVICE=cuda:0 PERGOLA_MIXES=100 "$bin/runtime_test" --gtest_filter='*TaskPool*:*TaskOrder*:TaskFences*:*TaskSpawning*:*SmallTasks*:*TaskFloors*:*TaskEdges*:*TaskUsers*'
part killed-tasks 300 env PERGOLA_DEVICE=cuda:0 "$bin/killed_tasks_test"
part narrow-rates 600 env PERGOLA_DEVICE=cuda:0 "$bin/narrow_rates_bench" --kernels "$source/bench/narrow" --report "$out/narrow-rates-h200"
part narrow-bench 900 env PERGOLA_DEVICE=cuda:0 "$bin/narrow_bench" --kernels "$source/bench/narrow" --report "$out/narrow-h200"
part narrow-fences 600 env PERGOLA_DEVICE=cuda:0 "$bin/narrow_bench" --kernels "$source/bench/narrow" --forms pergola --fences on \
  --report "$out/narrow-fenced-h200"
part narrow-figures 300 env PERGOLA_DEVICE=cuda:0 "$bin/narrow_figures_bench" --kernels "$source/bench/narrow" --report "$out/narrow-figures-h200"
part narrow-spawn 300 env PERGOLA_DEVICE=cuda:0 "$bin/narrow_spawn_bench" --kernels "$source/bench/narrow" --report "$out/narrow-spawn-h200"
part narrow-life 300 env PERGOLA_DEVICE=cuda:0 "$bin/narrow_life_bench" --kernels "$source/bench/narrow" --report "$out/narrow-life-h200"
part blocks 900 env PERGOLA_BLOCKS_KERNELS="$source/bench/blocks/kernels" "$bin/block_forms_bench" --waves 0.5 --waves 2 --waves 8 \
  --report "$out/blocks-h200"
if command -v ncu >/dev/null; then
  part dag-counters 600 python3 "$source/bench/dag/counters.py" --bench "$bin/dag_bench" --kernels "$source/bench/dag/kernels.cu" \
    --times "$out/dag-turns-h200.json" --bytes 100M --report "$out/dag-counters-h200"
fi
part dag-overlap 300 env PERGOLA_DEVICE=cuda:0 python3 "$source/bench/dag/overlap.py" --build "$(dirname "$bin")" \
  --kernels "$source/bench/dag/kernels.cu" --report "$out/dag-overlap-h200"
if python3 -c 'import numpy, pytest' 2>/dev/null; then
  for tests in "$source"/python/tests/test_*.py; do  # each file in a process of its own, as in CI
    part "python-$(basename "$tests" .py)" 300 env PERGOLA_DEVICE=cuda:0 PYTHONPATH="$python" python3 -m pytest -q -p no:cacheprovider "$tests"
  done
fi
part libraries 120 env PYTHONPATH="$python" python3 "$source/python/gpu/libraries.py"
part bookkeeping 300 "$bin/bookkeeping_bench" --report "$out/bookkeeping-h200"

# Reports speak of places inside the folder, wherever it lay.
for file in "$out"/*.log "$out"/*.json "$out"/*.md; do
  [ -f "$file" ] && sed -i -e "s#$out/##g" -e "s#$(dirname "$bin")/##g" -e "s#$source/##g" "$file"
done
printf '\n'
printf '%s\n' "$(date -u +%F), ${gpu:-no GPU}, commit $commit" "${summary[@]}" | tee "$out/summary.txt"
exit $failed
