#!/usr/bin/env bash
# Breaks the shapes in every way the talk asks about, and shows them heal. Exit 0 when all healed, 1 when not.
#   examples/shapes/break.sh [tags|prefix|records] [shared|exclusive]
# SHAPES names the program (built when absent). While it runs, the printed address shows the page.
set -u
ownership=${1:-tags} use=${2:-shared}
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${SHAPES:-}" ]; then
  cargo build --quiet -p homeostat-example-shapes || exit 1
  SHAPES=${CARGO_TARGET_DIR:-$here/../../target}/debug/shapes
fi
work=$(mktemp -d)
export KUBECONFIG=$work/kubeconfig
pids=() operator='' failures=0
finish() { kill "${pids[@]}" ${operator:+"$operator"} 2>/dev/null; wait 2>/dev/null; rm -rf "$work"; }
trap finish EXIT

# Starts a part of the program and waits for its first line: "ready", or of the operator what it reconciles.
start() { # name, arguments
  local log=$work/$1.log; shift
  : >"$log"
  "$SHAPES" "$@" >"$log" 2>&1 &
  pid=$!
  for _ in $(seq 300); do grep -q 'ready\|reconciles' "$log" && return; sleep 0.1; done
  echo "FAILED: $* did not start"; cat "$log"; exit 1
}
start_operator() {
  start operator operator --cloud "$cloud" --ownership "$ownership" --use "$use" --poll 2 --settle 3 --min-age 3
  operator=$pid
}
fetch() { curl -sf --max-time 10 "$@"; }
shape() { fetch "$cloud/shapes/$1" 2>/dev/null; }                     # as JSON, or nothing
is() { shape "$1" | grep -q "\"color\":\"$2\""; }                     # name, color
is_gone() { ! shape "$1" >/dev/null; }
is_there() { shape "$1" >/dev/null; }
post() { fetch -X POST "$cloud/shapes" -d "{\"name\":\"$1\",\"type\":\"circle\",\"color\":\"$2\"}" >/dev/null; }
recolor() { shape "$1" | sed "s/\"color\":\"[a-z]*\"/\"color\":\"$2\"/" | fetch -X PUT "$cloud/shapes/$1" -d @- >/dev/null; }
remove() { fetch -X DELETE "$cloud/shapes/$1" >/dev/null; }
faults() { fetch -X PUT "$cloud/faults" -d "$1" >/dev/null; }
# Says whether something becomes true within half a minute.
heals() { # words, command...
  printf '%-60s ' "$1"; shift
  for _ in $(seq 300); do "$@" && { echo ok; return; }; sleep 0.1; done
  echo FAILED; failures=$((failures + 1))
}
# Says whether something stays true for some seconds.
stays() { # words, command...
  printf '%-60s ' "$1"; shift
  for _ in $(seq 50); do "$@" || { echo FAILED; failures=$((failures + 1)); return; }; sleep 0.1; done
  echo ok
}

start cluster cluster --kubeconfig "$KUBECONFIG"; pids+=("$pid")
start server server; pids+=("$pid")
cloud=$(sed -n 's/^ready //p' "$work/server.log")
start_operator
name() { [ "$ownership" = prefix ] && echo "k8s-$1" || echo "$1"; }
foo=$(name foo) bar=$(name bar) baz=$(name baz)
echo "ownership by $ownership, $use use; watch it at $cloud"

for _ in $(seq 100); do "$SHAPES" make foo square red 2>/dev/null && break; sleep 0.1; done
heals "a Shape is made: the cloud has it" is "$foo" red
"$SHAPES" make foo square purple
heals "the Shape is changed: so is the cloud's" is "$foo" purple
remove "$foo"
heals "the shape is deleted behind our back: it is made again" is "$foo" purple
recolor "$foo" gold
heals "the shape is recolored by others: it is put right" is "$foo" purple

if command -v kubectl >/dev/null; then
  reason() { [ "$(kubectl get shape foo -o 'jsonpath={.status.conditions[?(@.type=="Synced")].reason}')" = "$1" ]; }
  faults '{"ignoresUpdates": true}'
  "$SHAPES" make foo square green
  heals "the cloud ignores updates: the Shape says so" reason NotTaken
  faults '{}'
  heals "it heeds them again: so the shape is as wanted" is "$foo" green
  "$SHAPES" make foo square purple
  heals "and the Shape is in sync" reason InSync
fi

post stranger tomato
if [ "$use" = exclusive ]; then
  heals "a foreign shape in a cloud of our own: cleaned up" is_gone stranger
else
  stays "a foreign shape in a shared cloud: left alone" is_there stranger
fi

faults '{"emptyLists": true}'
stays "the cloud's lists are empty: nothing is lost" is "$foo" purple
faults '{"errors": true}'
"$SHAPES" make bar triangle teal
stays "the cloud fails: nothing happens" is_gone "$bar"
faults '{}'
heals "the cloud is back: what was asked for is made" is "$bar" teal

faults '{"latencyMs": 1500}'
"$SHAPES" make baz circle orchid
sleep 2.5
kill -9 "$operator"; wait "$operator" 2>/dev/null
"$SHAPES" remove foo
faults '{}'
remove "$bar"
echo "kill -9 in the middle of making baz; foo removed and bar broken meanwhile"
start_operator
heals "the operator is back: baz is there" is "$baz" orchid
heals "the deletion it missed is carried out" is_gone "$foo"
heals "what broke meanwhile is put right" is "$bar" teal
"$SHAPES" remove bar; "$SHAPES" remove baz
heals "the last Shapes are removed: so are the shapes" is_gone "$bar"
heals "and nothing is left behind" is_gone "$baz"

if [ "$failures" -gt 0 ]; then echo "$failures did not heal"; tail -n 40 "$work"/*.log; exit 1; fi
echo "all healed"
