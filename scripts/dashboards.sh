#!/usr/bin/env bash
# Makes the Grafana boards and the Prometheus rules from Go: dashboards.sh says which committed file is
# stale and fails if one is, dashboards.sh -update writes them; both try the rules with promtool where
# it is installed. dashboards.sh -speed 60 prints the rules, 60 times faster.
. "$(dirname "$0")/lib.sh"

go -C dashboards run . "$@"
case "$*" in *-speed*) exit ;; esac

promtool=${ONCEGUARD_PROMTOOL:-promtool}
if ! have "$promtool"; then
  say 'promtool: SKIPPED, it is not here (Debian: apt-get install prometheus, or set ONCEGUARD_PROMTOOL)'
  exit
fi
cd dashboards/rules
"$promtool" check rules onceguard.rules.yml >&2
"$promtool" test rules onceguard.rules.test.yml >&2
