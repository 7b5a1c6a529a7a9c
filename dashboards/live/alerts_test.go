package live

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/onceguard/onceguard/dashboards/rules"
)

// causes are the faults of the demo, in the order in which they are caused, and the alerts that they are for. Those of
// one step disturb each other not.
func causes() []map[string][]string {
	return []map[string][]string{
		{
			"stale":        {"OnceguardDoubleRunSuspected"},
			"doubt":        {"OnceguardKeysHeld", "OnceguardOutcomesUnknown"},
			"large":        {"OnceguardResultsNotStored"},
			"evict":        {"OnceguardStoreLosesRecords"},
			"hang?for=30s": {"OnceguardLeaseTooOld"},
			"pile?for=20s": {"OnceguardWaitersPilingUp"},
		},
		{
			"off":  {"OnceguardUnguardedRuns"}, // of an operation that others of these need
			"logs": {"OnceguardLogLinesDropped"},
		},
		{"pause": {"OnceguardLeaseLost", "OnceguardStorageErrorBudgetBurn"}},
		{"slow?for=30s": {"OnceguardRenewalsLate"}}, // the last one, since it goes on
	}
}

func TestAlerts_AreSilentOnAHealthyDemoAndEachFiresForItsFault(t *testing.T) {
	s := start(t, "-faults", "none", "-rate", "2")
	const healthy = 25 * time.Second // of the rules' time: 25 minutes
	time.Sleep(healthy)
	if fired, err := s.fired(healthy); err != nil || len(fired) > 0 {
		t.Fatalf("fired on a healthy demo: %v, %v", fired, err)
	}
	left := map[string]bool{}
	for _, alert := range rules.New(1).Alerts() {
		left[alert.Alert] = true
	}
	for _, step := range causes() {
		began := time.Now()
		var want []string
		for _, name := range slices.Sorted(maps.Keys(step)) {
			s.cause(name)
			want = append(want, step[name]...)
		}
		s.until(90*time.Second, func() error {
			fired, err := s.fired(time.Since(began))
			if err != nil {
				return err
			}
			for _, alert := range fired {
				delete(left, alert)
			}
			for _, alert := range want {
				if !slices.Contains(fired, alert) {
					return fmt.Errorf("%s did not fire, %v after %v", alert, time.Since(began).Round(time.Second), slices.Sorted(maps.Keys(step)))
				}
			}
			return nil
		})
	}
	for alert := range left {
		t.Errorf("%s has not fired", alert)
	}
}

// cause has the demo cause a fault.
func (s *scene) cause(fault string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.demo+"/fault/"+fault, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		s.Fatalf("%s: %s", fault, response.Status)
	}
}

// fired are the names of the alerts that fired in the time.
func (s *scene) fired(within time.Duration) (names []string, err error) {
	found, err := s.query(fmt.Sprintf(`count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[%ds]))`, int(within.Seconds())+1))
	for _, v := range found {
		names = append(names, v.Metric["alertname"])
	}
	return names, err
}
