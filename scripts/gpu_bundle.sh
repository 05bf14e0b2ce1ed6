#!/usr/bin/env bash
# gpu_bundle.sh [FOLDER]: a folder that runs as it is on a machine with an NVIDIA driver and nothing else of ours:
#
#   FOLDER/bin.tar.gz what becomes FOLDER/bin, programs, tests and benchmarks (stripped), and FOLDER/lib, libpergola.so and
#                     the shared libraries that these need but for the C and C++ runtime: `report` unpacks it, or tar does
#   FOLDER/python     the Python package
#   FOLDER/source     what tests and examples read
#   FOLDER/report     runs everything on the GPU and writes reports (scripts/gpu_report.sh)
#
# The CPU device's LLVM module stays behind: there the CPU device interprets. At most 46 MiB, checked: with the tree it
# stays below 64.
set -euo pipefail
[ $# -eq 0 ] || set -- "$(realpath -m "$1")"  # where the caller is
cd "$(dirname "$0")/.."
folder=${1:-$PWD/build/gpu-bundle}
limit_mib=46
bin=build/dev/bin
rm -rf "$folder"
mkdir -p "$folder"/{bin,lib,source}

programs=(pergola img instruction_bits)
# Tests that meet no device, or the CPU device alone, have nothing to say there.
away=' analysis_test base_test ptx_test source_test tool_test instruction_table_test session_test device_test corpus_test
 scheduler_test errors_test device_cpu_test device_cpu_interpreter_test pointer_modes_soundness_test recording_test
 device_null_test device_cuda_test transform_test executor_test capi_test c11_test fairness_test corpus_run_test launches_test
 examples_test cpu_device_bench footprints_soundness_test block_programs_test block_patterns_test
 recorded_patterns_test relations_soundness_test block_patterns_bench
 analysis_affine_test fence_hoist_test corpus_footprints_test block_orders_test random_chains_test device_cpu_blocks_test block_schedule_bench lowered_programs_test '
for program in "$bin"/*_test "$bin"/*_bench; do
  case ${away//$'\n'/ } in *" $(basename "$program") "*) continue ;; esac
  [ -x "$program" ] && programs+=("$(basename "$program")")
done
for program in "${programs[@]}"; do
  case $(ldd "$bin/$program" 2>/dev/null) in *libLLVM*) continue ;; esac  # tests of the LLVM module itself
  install -s -m 755 "$bin/$program" "$folder/bin/$program"
done
cp -a build/dev/lib/libpergola.so* "$folder/lib/"
cp build/dev/lib/libdriver_chain.so "$folder/lib/"
strip --strip-unneeded "$folder/lib/libdriver_chain.so"
strip --strip-unneeded "$folder"/lib/libpergola.so.*.* 2>/dev/null || strip --strip-unneeded "$folder"/lib/libpergola.so

mkdir "$folder/python"
cp -aL build/dev/python/pergola "$folder/python/pergola"
rm -rf "$folder/python/pergola/__pycache__"
strip --strip-unneeded "$folder"/python/pergola/*.so

# Everything that Debian's libc6, libstdc++6 and libgcc-s1 do not give.
ldd "$folder"/bin/* "$folder"/lib/*.so 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' | grep -v "$PWD/" |
  while read -r library; do install -m 644 "$(readlink -f "$library")" "$folder/lib/$(basename "$library")"; done

git ls-files tests/ptx tests/conformance tests/differential tests/litmus tests/corpus/cuda tests/corpus/ptx tests/corpus/triton examples include bench/dag bench/narrow bench/blocks/kernels bench/support python/gpu python/tests scripts/gpu_report.sh |
  tar -cf - -T - | tar -xf - -C "$folder/source"
install -m 755 scripts/gpu_report.sh "$folder/report"
git describe --always --dirty --abbrev=12 >"$folder/source/COMMIT"

# It must start where it lies, with the libraries it carries.
(cd / && "$folder/bin/pergola" doctor >/dev/null) || { echo "pergola does not start from the bundle" >&2; exit 1; }
programs_count=$(ls "$folder/bin" | wc -l)
tar -C "$folder" -I "gzip -9" -cf "$folder/bin.tar.gz" bin lib
rm -rf "$folder/bin" "$folder/lib"

size_mib=$(du -sm "$folder" | cut -f1)
echo "$folder: $size_mib MiB, $programs_count programs"
if [ "$size_mib" -gt "$limit_mib" ]; then
  echo "The bundle is larger than $limit_mib MiB:" >&2
  du -am "$folder" | sort -rn | head -20 >&2
  exit 1
fi
