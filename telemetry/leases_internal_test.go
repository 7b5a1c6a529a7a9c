package telemetry

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
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
