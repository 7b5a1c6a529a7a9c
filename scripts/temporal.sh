#!/usr/bin/env bash
# Prints the path of a Temporal CLI: ONCEGUARD_TEMPORAL, else the one on the
# PATH, else the one that tools/temporal pins.
. "$(dirname "$0")/lib.sh"

if [ -n "${ONCEGUARD_TEMPORAL:-}" ]; then
  printf '%s\n' "$ONCEGUARD_TEMPORAL"
elif ! command -v temporal; then
  scripts/tool.sh tools/temporal github.com/temporalio/cli/cmd/temporal ||
    die 'A `temporal` on the PATH, or its path in ONCEGUARD_TEMPORAL, does as well.'
fi
