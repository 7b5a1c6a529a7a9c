package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/onceguard/onceguard/telemetry"
)

// counters are sums of a worker's counters, or of several workers': by the name
// of the metric, and by metric and value of the label that matters.
type counters map[string]int

// labelled is the key of a metric's series with one label's value.
func labelled(metric, value string) string { return metric + " " + value }

// scrape reads the counters of a worker's /metrics.
func scrape(ctx context.Context, url string) (counters, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	sums := counters{}
	for name, family := range families {
		for _, series := range family.GetMetric() {
			n := int(series.GetCounter().GetValue())
			sums[name] += n
			for _, label := range series.GetLabel() {
				if l := label.GetName(); l == telemetry.LabelOutcome || l == telemetry.LabelResult {
					sums[labelled(name, label.GetValue())] += n
				}
			}
		}
	}
	return sums, nil
}

func (c counters) add(more counters) {
	for name, n := range more {
		c[name] += n
	}
}
