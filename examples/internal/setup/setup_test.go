package setup_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/examples/internal/setup"
)

func TestRun_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"-guard=maybe":          "on or off",
		"-nothing":              "not defined",
		"-temporal=127.0.0.1:1": "127.0.0.1:1",
	} {
		err := setup.Run(t.Context(), "example", []string{arg}, io.Discard, func(context.Context, setup.Env) error {
			t.Errorf("%s: the example ran", arg)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", arg, err, want)
		}
	}
	if err := setup.Run(t.Context(), "example", []string{"-help"}, io.Discard, nil); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: error %v, want ErrHelp", err)
	}
}
