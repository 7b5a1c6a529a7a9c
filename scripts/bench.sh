#!/usr/bin/env bash
# Measures what the guard adds to an activity, and prints it as a table: bench.sh
# [runs]. Of all runs the least time counts, since other work only adds to it.
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
