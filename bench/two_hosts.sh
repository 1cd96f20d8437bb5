#!/usr/bin/env bash
# Two "hosts" of two ranks on this machine: two network namespaces joined by a veth pair, real TCP between them.
#
#   bench/two_hosts.sh [--rate RATE] [build/release/athanor]      --rate 200mbit limits the link by tbf
#
# Trains the same run over shared memory on one host, and across the two hosts with groups of two levels and flat,
# and prints, per direction, what the link's own counters say beside the formula: for each step a host sends
# 2 (H-1)/H S of gradients with two levels; the flat group's two ranks of a host send 4/4 S each to the other host's.
# The losses of all three must be the same, bit for bit. Needs root; says so and ends well where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rate=
if [ "${1-}" = --rate ]; then rate=$2; shift 2; fi
athanor=$(realpath "${1-build/release/athanor}")
if [ "$(id -u)" -ne 0 ] || ! command -v ip >/dev/null || ! ip netns list >/dev/null 2>&1; then
  echo "two_hosts: SKIPPED: needs root and ip netns"
  exit 0
fi

work=$(mktemp -d)
a=athanor-a-$$ b=athanor-b-$$
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
if ! ip netns add "$a" || ! ip netns add "$b" ||
  ! ip link add va netns "$a" type veth peer name vb netns "$b"; then
  echo "two_hosts: SKIPPED: this machine grants no network namespaces"
  exit 0
fi
for side in "$a va 10.77.0.1" "$b vb 10.77.0.2"; do
  read -r space link address <<<"$side"
  ip -n "$space" addr add "$address/24" dev "$link"
  ip -n "$space" link set "$link" up
  ip -n "$space" link set lo up
  if [ -n "$rate" ]; then
    ip netns exec "$space" tc qdisc add dev "$link" root tbf rate "$rate" burst 256kb latency 100ms
  fi
done

cd "$work"
for i in $(seq 1 400); do echo "the $((i * 7919 % 97)) furnaces of $((i * 31 % 89)) keep a steady heat for weeks."; done >en.txt
"$athanor" tokenizer train --type char --output tokenizer.json en.txt >/dev/null 2>&1
steps=20
cat >run.toml <<TOML
[model]
family = "llama"
layers = 4
width = 256
heads = 4
[data]
channels = [ {name = "en", path = "en.txt"} ]
tokenizer = "tokenizer.json"
seq_len = 64
[train]
steps = $steps
global_batch = 8
micro_batch = 2
eval_every = 0
threads = 1
[precision]
compute = "f32"
[parallel]
reduce = "tree"
[checkpoint]
every_steps = 0
TOML

sent() {  # bytes that host 0 (a) or 1 (b) has put on the link
  if [ "$1" = 0 ]; then ip netns exec "$a" cat /sys/class/net/va/statistics/tx_bytes
  else ip netns exec "$b" cat /sys/class/net/vb/statistics/tx_bytes; fi
}
across() {  # NAME PORT SETTINGS...: the run on both hosts
  local name=$1 port=$2 pids=() failed=0
  shift 2
  for node in 0 1; do
    local space=$a
    [ "$node" = 0 ] || space=$b
    ip netns exec "$space" "$athanor" launch -n 2 --nodes 2 --node "$node" --master "10.77.0.1:$port" -- \
      train run.toml --set "train.name=$name" "$@" >"$name.$node.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  [ "$failed" = 0 ] || { echo "two_hosts: FAILED: the run '$name'"; tail -n 20 "$name".*.log; exit 1; }
}
losses() { sed -n 's/.*"loss":\([^,}]*\).*/\1/p' "runs/$1/metrics.jsonl"; }

"$athanor" launch -n 4 -- train run.toml --set train.name=shm >shm.log 2>&1 || { cat shm.log; exit 1; }
parameters=$(tr ',' '\n' <runs/shm/report.json | sed -n 's/.*"params": *\([0-9]*\).*/\1/p' | head -n 1)
bytes=$((parameters * 4))
bad=0
for name in levels flat; do
  settings=()
  [ "$name" = levels ] || settings=(--set parallel.transport=gloo)
  before0=$(sent 0) before1=$(sent 1)
  across "$name" $((29600 + RANDOM % 1000)) "${settings[@]}"
  after0=$(sent 0) after1=$(sent 1)
  # reduce = "tree" on contiguous grains of even ranks: each rank (each host, with two levels) brings one node.
  if [ "$name" = levels ]; then formula=$((2 * 1 * bytes / 2)); else formula=$((2 * bytes)); fi
  for node in 0 1; do
    before=before$node after=after$node
    on_link=$(((${!after} - ${!before}) / steps))
    awk -v name="$name" -v node="$node" -v got="$on_link" -v want="$formula" 'BEGIN {
      printf "%-6s host %d sends %d bytes a step, formula %d, headers and the rest %+.2f %%\n", name, node, got, want,
        100 * (got / want - 1)
      exit !(got >= want && got <= 1.06 * want)}' || bad=1
  done
  if cmp -s <(losses "$name") <(losses shm); then
    echo "$name: $(losses "$name" | wc -l) losses bitwise those of one host"
  else
    echo "$name: LOSSES DIFFER from those of one host"
    bad=1
  fi
done
[ "$bad" = 0 ] && echo "two_hosts: ok" || { echo "two_hosts: FAILED"; exit 1; }
