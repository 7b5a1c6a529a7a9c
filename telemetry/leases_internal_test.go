package telemetry

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// The table is also that of the test of the page's script, in integration/leasepage.
func TestLeaseDuration_IsForPeople(t *testing.T) {
	text, err := os.ReadFile("testdata/durations.json")
	if err != nil {
		t.Fatal(err)
	}
	var table map[string]string
	if err := json.Unmarshal(text, &table); err != nil || len(table) == 0 {
		t.Fatal(err)
	}
	for given, want := range table {
		seconds, err := strconv.ParseFloat(given, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := leaseDuration(seconds); got != want {
			t.Errorf("%s seconds are %q, want %q", given, got, want)
		}
	}
	if got := leaseLeft(-3.25) + ", " + leaseLeft(3.25); got != "over by 3.2 s, 3.2 s left" {
		t.Errorf("got %q", got)
	}
}

func TestLeaseState_ChangesWhereItSays(t *testing.T) {
	const lease = 30 * time.Second
	for left, want := range map[time.Duration]string{
		lease:             leaseFine,
		lease / 2:         leaseFine,
		lease/2 - 1:       leaseLate,
		1:                 leaseLate,
		0:                 leaseOver,
		-40 * time.Second: leaseOver,
	} {
		if got := leaseState(guard.LeaseInfo{Lease: lease, Left: left}); got != want {
			t.Errorf("%s left of %s: %s, want %s", left, lease, got, want)
		}
		if got := leaseState(guard.LeaseInfo{Lease: lease, Left: left, Lost: true}); got != leaseLost {
			t.Errorf("%s left of %s, and lost: %s", left, lease, got)
		}
	}
}
