#!/usr/bin/env bash
# Measures what the guard adds to an activity and what telemetry adds to a call, and
# prints it as two tables: bench.sh [runs]. Of all runs the least time counts, since
# other work only adds to it.
. "$(dirname "$0")/lib.sh"

scratch
go -C integration test -run '^$' -bench . -count "${1:-5}" ./overhead >"$tmp/runs"
awk '
  /^Benchmark/ {
    split($1, part, "/"); kind = part[1]; name = part[2]; sub(/-[0-9]+$/, "", name)
    if (!(name in seen)) { seen[name] = 1; order[++n] = name }
    if (!((kind, name) in ns) || $3 < ns[kind, name]) ns[kind, name] = $3 + 0
    allocs[kind, name] = $7
  }
  END {
    print "| worker | activity | allocations | of bare | interceptors alone | allocations |"
    print "|---|---|---|---|---|---|"
    for (i = 1; i <= n; i++) {
      name = order[i]
      printf "| %s | %.1f µs | %d | %.2f | %.1f µs | %d |\n", name,
        ns["BenchmarkActivity", name] / 1000, allocs["BenchmarkActivity", name],
        ns["BenchmarkActivity", name] / ns["BenchmarkActivity", "bare"],
        ns["BenchmarkChain", name] / 1000, allocs["BenchmarkChain", name]
    }
  }' "$tmp/runs"

# Each run is short and has all observers in it, so that each gets the same share of
# what else the machine does. On one CPU the time has all that a call costs in it: the
# goroutine that renews, and the garbage.
go test -c -o "$tmp/telemetry.test" ./telemetry
for _ in $(seq $((${1:-5} * 10))); do
  (cd telemetry && "$tmp/telemetry.test" -test.run '^$' -test.bench '^BenchmarkCall$' -test.cpu 1 -test.benchtime 3000x)
done >"$tmp/runs"
awk '
  /^BenchmarkCall/ {
    split($1, part, "/"); kind = part[2]; name = part[3]; sub(/-[0-9]+$/, "", name)
    if (!(name in seen)) { seen[name] = 1; order[++n] = name }
    if (!((kind, name) in ns) || $3 < ns[kind, name]) ns[kind, name] = $3 + 0
    allocs[kind, name] = $7
  }
  function row(kind, name) {
    return sprintf(" %.1f µs | %+.2f µs | %.2f | %+d |", ns[kind, name] / 1000,
      (ns[kind, name] - ns[kind, "none"]) / 1000, ns[kind, name] / ns[kind, "none"],
      allocs[kind, name] - allocs[kind, "none"])
  }
  END {
    print "\n| observer | executed | more | of none | allocations | replayed | more | of none | allocations |"
    print "|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= n; i++) print "| " order[i] " |" row("executed", order[i]) row("replayed", order[i])
  }' "$tmp/runs"
