#!/usr/bin/env bash
# All-reduce of f32 between processes of this machine: ours beside Open MPI's, interleaved, in pairs.
#
#   bench/compare_comm.sh PEERS [PAIRS]          # PEERS holds mpi_allreduce.c; 5 pairs unless said otherwise
#
# Prints the medians and their ratio (Open MPI's time over ours) for 2 and 4 ranks and 1, 16 and 128 MiB, and appends
# to bench/results/comm.jsonl a line with the machine, one for each pair and one for each ratio. A measurement is the
# mean of five calls in a row after one to warm up, on both sides; ours checks its result first. `shared` buffers lie
# in memory that all ranks can address, as gradients do; `copied` ones anywhere.
#
# ATHANOR     the program (build/release/athanor)
# RUN_UNDER   a command that each pair runs under, such as "flock /tmp/lock nice -n -10"
set -euo pipefail

sizes_mib="1 16 128"
mpi_options="--oversubscribe"
if [ "$(id -u)" = 0 ]; then mpi_options+=" --allow-run-as-root"; fi

ours() {  # ranks, MiB, shared: seconds
  "$ATHANOR" bench comm --op all_reduce --ranks "$1" --bytes "$2MiB" --shared "$3" --samples 1 --repeats 5 --json |
    sed -n 's/.*"median_seconds": \([^,]*\).*/\1/p'
}

# One pair, in a process of its own so that it can be run under something: ranks, peer's program, pair's number.
if [ "${1-}" = --pair ]; then
  # "openmpi 2 ranks 16 MiB: 3.7 ms, 4.55 GB/s": the rate has more digits than the time.
  # shellcheck disable=SC2086
  theirs=$(mpirun $mpi_options -n "$2" "$3" | awk '{printf "%s %.9f\n", $4, $4 * 1.048576e-3 / $8}')
  for size in $sizes_mib; do
    shared=$(ours "$2" "$size" yes)
    copied=$(ours "$2" "$size" no)
    awk -v ranks="$2" -v pair="$4" -v size="$size" -v shared="$shared" -v copied="$copied" '
      $1 == size {
        printf "{\"ranks\": %d, \"mib\": %d, \"pair\": %d, \"openmpi_ms\": %.4f, \"shared_ms\": %.4f, \"copied_ms\": %.4f}\n",
               ranks, size, pair, $2 * 1e3, shared * 1e3, copied * 1e3
      }' <<<"$theirs"
  done
  exit
fi

peers=${1-} pairs=${2-5}
if [ ! -f "$peers/mpi_allreduce.c" ]; then
  echo "compare_comm.sh: error: got '$peers', expected the folder of mpi_allreduce.c" >&2
  exit 2
fi
peers=$(cd "$peers" && pwd)
self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/compare_comm.sh
cd "$(dirname "$self")/.."
export ATHANOR=${ATHANOR-$PWD/build/release/athanor}
for program in mpicc mpirun "$ATHANOR"; do
  command -v "$program" >/dev/null || {
    echo "compare_comm.sh: error: $program is missing (apt-get install openmpi-bin libopenmpi-dev; ./test.sh)" >&2
    exit 1
  }
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mpicc -O2 -o "$scratch/mpi_allreduce" "$peers/mpi_allreduce.c"
for pair in $(seq "$pairs"); do
  for ranks in 2 4; do
    # shellcheck disable=SC2086
    ${RUN_UNDER-} "$self" --pair "$ranks" "$scratch/mpi_allreduce" "$pair" | tee -a "$scratch/pairs" >&2
  done
done

mkdir -p bench/results
{
  printf '{"hardware": "%s", "cores": %d, "memory_gib": %d, "date": "%s", "peer": "%s"}\n' \
    "$(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo)" "$(nproc)" \
    "$(awk '/MemTotal/{print int($2 / 1048576 + 0.5)}' /proc/meminfo)" "$(date -u +%Y-%m-%d)" \
    "$(mpirun --version | head -n 1)"
  cat "$scratch/pairs"
} >>bench/results/comm.jsonl

# The median of a column over the pairs of one kind.
median() {  # ranks, MiB, column
  sed -n "s/.*\"ranks\": $1, \"mib\": $2, .*\"$3\": \([0-9.]*\).*/\1/p" "$scratch/pairs" | sort -g |
    awk '{value[NR] = $1} END {print NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2}'
}
echo "ranks   MiB   Open MPI ms   shared ms    ratio   copied ms    ratio"
for ranks in 2 4; do
  for size in $sizes_mib; do
    theirs=$(median "$ranks" "$size" openmpi_ms)
    shared=$(median "$ranks" "$size" shared_ms)
    copied=$(median "$ranks" "$size" copied_ms)
    awk -v r="$ranks" -v m="$size" -v t="$theirs" -v s="$shared" -v c="$copied" -v pairs="$pairs" \
      -v results=bench/results/comm.jsonl 'BEGIN {
        printf "%5d %5d %13.3f %11.3f %7.2fx %11.3f %7.2fx\n", r, m, t, s, t / s, c, t / c
        printf "{\"ranks\": %d, \"mib\": %d, \"pairs\": %d, \"openmpi_ms\": %.4f, \"shared_ms\": %.4f, \"shared_ratio\": %.2f, \"copied_ms\": %.4f, \"copied_ratio\": %.2f}\n",
               r, m, pairs, t, s, t / s, c, t / c >>results
      }'
  done
done
