package boards_test

import (
	"errors"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/onceguard/onceguard/dashboards/internal/boards"
)

// What is made is what the schema of Grafana takes: no unknown field, no wrong type, no rule broken.
func TestMake_FitsTheSchemaOfGrafana(t *testing.T) {
	made, err := boards.Make()
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 3 {
		t.Fatalf("%d boards, want 3", len(made))
	}
	for file, text := range made {
		var d dashboard.Dashboard //nolint:staticcheck // the classic form is what is made
		err := d.UnmarshalJSONStrict(text)
		if faults, ok := errors.AsType[cog.BuildErrors](err); ok && len(faults) == 0 {
			err = nil // the SDK returns an empty list in place of nil
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
