#!/usr/bin/env bash
# Draws the boards in a browser page, without a Grafana: the demo under load with faults now and then, a
# Prometheus that scrapes it, and the page. preview.sh [how long between two faults].
. "$(dirname "$0")/lib.sh"

scripts/setup.sh
ONCEGUARD_TEMPORAL=$(scripts/temporal.sh)
export ONCEGUARD_TEMPORAL
scratch
go -C examples build -o "$tmp/demo" ./serve
go -C integration build -o "$tmp/preview" ./preview/serve
cat >"$tmp/prometheus.yml" <<END
global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: ["$root/dashboards/rules/onceguard.rules.yml"]
scrape_configs: [{job_name: onceguard, static_configs: [{targets: ["127.0.0.1:9464"]}]}]
END

# All three end with this script, however it ends. What the demo says besides its log lines is shown then.
trap 'trap - EXIT INT TERM; kill $(jobs -p) 2>/dev/null || true; wait
  grep -v "^{" "$tmp/app.log" >&2 || true; rm -rf "$tmp"' EXIT INT TERM
"$tmp/demo" -every "${1:-30s}" -logs 2>"$tmp/app.log" &
prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/data" --log.level=warn \
  --web.listen-address=127.0.0.1:9466 --enable-feature=exemplar-storage &
"$tmp/preview" -boards "$root/dashboards" -prometheus http://127.0.0.1:9466 &
say "boards http://127.0.0.1:9465/  leases http://127.0.0.1:9464/leases  prometheus http://127.0.0.1:9466/
   log lines of the demo, until it ends: $tmp/app.log  (Ctrl-C ends it)"
if ((BASH_VERSINFO[0] < 5)); then wait; else wait -n; fi
