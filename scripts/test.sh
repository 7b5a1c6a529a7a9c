#!/usr/bin/env bash
# Runs all tests of all modules, on real servers and with the race detector,
# and fails if they leave a process behind. TESTFLAGS are added to go test.
. "$(dirname "$0")/lib.sh"

scripts/setup.sh
ONCEGUARD_TEMPORAL=$(scripts/temporal.sh)
export ONCEGUARD_TEMPORAL ONCEGUARD_REQUIRE_SERVERS=1

scratch
go -C tools build -o "$tmp/leftovers" ./leftovers
dirs=$(packaged)
for dir in $dirs; do
  # shellcheck disable=SC2086 # flags
  step 'go test' "$dir" "$tmp/leftovers" go test -race -count=1 -timeout 10m ${TESTFLAGS:-} ./...
done
# The race detector allocates: what must not is tested without it.
step 'allocations' . go test -count=1 -run 'Alloc' ./guard ./telemetry
scripts/fuzz.sh 2s || failed="$failed
  fuzz"
finish test
