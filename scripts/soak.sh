#!/usr/bin/env bash
# Kills the workers of Temporal workflows at random while they charge orders, on
# real servers, and counts the charges: soak.sh [how many workflows] [seed]. One
# workflow starts every 240 ms, and the kills go on for as long: two minutes for
# 500. The same comes once more without the guard. A seed repeats what is chosen
# at random, and not in which order things happen.
. "$(dirname "$0")/lib.sh"

scripts/setup.sh
ONCEGUARD_TEMPORAL=$(scripts/temporal.sh)
export ONCEGUARD_TEMPORAL ONCEGUARD_REQUIRE_SERVERS=1 ONCEGUARD_WORKFLOWS="${1:-500}" ONCEGUARD_SEED="${2:-}"
go -C integration test -race -count=1 -timeout 12h -run TestStorm -v ./storm
