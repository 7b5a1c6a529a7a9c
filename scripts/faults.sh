#!/usr/bin/env bash
# Kills and stops processes at random in the middle of payments, on a real Redis,
# and sees that each order is charged once: faults.sh [how many faults] [seed]. So
# many meet payments with a recovery hook, and as many such that run at most once.
# A seed repeats what is chosen at random, and not in which order things happen.
. "$(dirname "$0")/lib.sh"

scripts/setup.sh
export ONCEGUARD_REQUIRE_SERVERS=1 ONCEGUARD_FAULTS="${1:-200}" ONCEGUARD_SEED="${2:-}"
go -C examples test -race -count=1 -timeout 12h -run TestRandom -v ./torture
