# Sourced by the benches over two "hosts": two network namespaces on this machine, joined by a veth pair, real TCP
# between them. Leaves the caller in an empty folder that goes with it, where the tokenizer and text of a run lie.
#
#   make_hosts NAME ATHANOR        # ends well, saying so as NAME, where there is no root or no namespace
#   limit_link 200mbit             # by tbf, in both directions; "" for as fast as it goes
#   across RANKS CONFIG NAME SETTINGS...    # the run on both hosts, RANKS on each; ends the bench where it fails
#   sent HOST                      # bytes that host 0 or 1 has put on the link

make_hosts() {
  bench=$1 athanor=$(realpath "$2")
  if [ "$(id -u)" -ne 0 ] || ! command -v ip >/dev/null || ! ip netns list >/dev/null 2>&1; then
    echo "$bench: SKIPPED: needs root and ip netns"
    exit 0
  fi
  work=$(mktemp -d)
  a=athanor-a-$$ b=athanor-b-$$
  trap remove_hosts EXIT
  if ! ip netns add "$a" || ! ip netns add "$b" ||
    ! ip link add va netns "$a" type veth peer name vb netns "$b"; then
    echo "$bench: SKIPPED: this machine grants no network namespaces"
    exit 0
  fi
  for side in "$a va 10.77.0.1" "$b vb 10.77.0.2"; do
    read -r space link address <<<"$side"
    ip -n "$space" addr add "$address/24" dev "$link"
    ip -n "$space" link set "$link" up
    ip -n "$space" link set lo up
  done
  cd "$work"
  for i in $(seq 1 "${LINES_OF_TEXT-400}"); do
    echo "the $((i * 7919 % 97)) furnaces of $((i * 31 % 89)) keep a steady heat for weeks."
  done >en.txt
  "$athanor" tokenizer train --type char --output tokenizer.json en.txt >/dev/null 2>&1
}

remove_hosts() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$work"
}

limit_link() {
  for side in "$a va" "$b vb"; do
    read -r space link <<<"$side"
    ip netns exec "$space" tc qdisc del dev "$link" root 2>/dev/null || true
    if [ -n "$1" ]; then
      ip netns exec "$space" tc qdisc add dev "$link" root tbf rate "$1" burst 256kb latency 100ms
    fi
  done
}

sent() {
  if [ "$1" = 0 ]; then ip netns exec "$a" cat /sys/class/net/va/statistics/tx_bytes
  else ip netns exec "$b" cat /sys/class/net/vb/statistics/tx_bytes; fi
}

across() {
  local ranks=$1 config=$2 name=$3 port=$((29600 + RANDOM % 1000)) pids=() failed=0
  shift 3
  for node in 0 1; do
    local space=$a
    [ "$node" = 0 ] || space=$b
    ip netns exec "$space" "$athanor" launch -n "$ranks" --nodes 2 --node "$node" --master "10.77.0.1:$port" -- \
      train "$config" --set "train.name=$name" "$@" >"$name.$node.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  [ "$failed" = 0 ] || { echo "$bench: FAILED: the run '$name'"; tail -n 20 "$name".*.log; exit 1; }
}
