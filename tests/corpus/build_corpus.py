#!/usr/bin/env python3
"""Compiles tests/corpus/cuda/*.cu by every compiler on this machine, for the tests of the corpus.

    build_corpus.py --compile PROGRAM --out FOLDER [--jobs 2] [--only NAME ...]

writes FOLDER/<variant>/<source>.ptx and FOLDER/manifest.json, which names each variant, each source it left out with
the reason that stands in the source, and each compiler that is not there. A variant is a compiler and its options:

    nvrtc-75 nvrtc-90            NVRTC, through Pergola itself (PROGRAM is corpus_compile)
    clang-75 clang-90            clang with Pergola's CUDA header, in the same way
    nvcc-75 nvcc-90-G nvcc-90-lineinfo

What a source needs stands in its first lines: `//! arch: 80` (the least) and `//! clang: no: reason`.
Ends with 1 where a source does not compile, 0 otherwise, also where there is no compiler at all.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NVCC_PLACES = ["/usr/local/cuda/bin/nvcc"]
UNAVAILABLE = 3  # corpus_compile's exit code where the compiler is not on this machine


def find_nvcc():
    for root in ("CUDA_HOME", "CUDA_PATH"):
        if root in os.environ:
            NVCC_PLACES.insert(0, os.path.join(os.environ[root], "bin", "nvcc"))
    return shutil.which("nvcc") or next((p for p in NVCC_PLACES if os.access(p, os.X_OK)), None)


def variants(program, nvcc):
    """(name, arch, command before the input and output) of each."""
    for compiler in ("nvrtc", "clang"):
        for arch in (75, 90):
            yield f"{compiler}-{arch}", arch, lambda a, c=compiler: [program, c, f"sm_{a}"]
    if nvcc:
        plain = lambda a, *options: [nvcc, "-ptx", "-std=c++17", f"-arch=compute_{a}", "-allow-unsupported-compiler",
                                     "-diag-suppress=177", *options]
        yield "nvcc-75", 75, plain
        yield "nvcc-90-G", 90, lambda a: plain(a, "-G")
        yield "nvcc-90-lineinfo", 90, lambda a: plain(a, "-lineinfo")


def needs(source):
    """The least architecture, and why clang cannot compile it (or nothing)."""
    head = source.read_text()[:2000]
    arch = re.search(r"^//! arch: (\d+)", head, re.M)
    clang = re.search(r"^//! clang: no: (.+)", head, re.M)
    return int(arch.group(1)) if arch else 0, clang.group(1) if clang else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", required=True, help="the program corpus_compile")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="these sources alone, by name without .cu")
    arguments = parser.parse_args()
    sources = sorted((HERE / "cuda").glob("*.cu"))
    if arguments.only:
        sources = [s for s in sources if s.stem in arguments.only]
    if arguments.out.exists():
        shutil.rmtree(arguments.out)
    arguments.out.mkdir(parents=True)

    manifest = {"variants": {}, "left_out": {}, "absent": []}
    nvcc = find_nvcc()
    if not nvcc:
        manifest["absent"].append("nvcc")
    tasks = []
    for name, arch, command in variants(arguments.compile, nvcc):
        manifest["variants"][name] = []
        for source in sources:
            least, no_clang = needs(source)
            if name.startswith("clang") and no_clang:
                manifest["left_out"][f"{name}/{source.stem}"] = no_clang
                continue
            out = arguments.out / name / f"{source.stem}.ptx"
            out.parent.mkdir(exist_ok=True)
            head = command(max(arch, least))
            files = ["-o", str(out), str(source)] if head[0] == nvcc else [str(source), str(out)]
            tasks.append((name, source, head + files))

    def compile_one(task):
        done = subprocess.run(task[2], capture_output=True, text=True, timeout=300)
        return task, done.returncode, done.stdout + done.stderr

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for (name, source, _), code, log in pool.map(compile_one, tasks):
            if code == UNAVAILABLE:
                compiler = name.split("-")[0]
                if compiler not in manifest["absent"]:
                    manifest["absent"].append(compiler)
            elif code != 0:
                failed += 1
                print(f"{name}: {source.name} does not compile ({code}):\n{log}", file=sys.stderr)
            else:
                manifest["variants"][name].append(source.stem)
    (arguments.out / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    made = sum(len(v) for v in manifest["variants"].values())
    print(f"{made} PTX files of {len(sources)} sources; absent: {', '.join(manifest['absent']) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
