package temporalx

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/onceguard/onceguard/guard"
)

func TestToTemporal_EveryErrorOfTheGuardHasItsType(t *testing.T) {
	for _, test := range []struct {
		err   error
		want  string
		final bool
	}{
		{&guard.InProgressError{}, TypeInProgress, false},
		{&guard.StorageError{}, TypeStorage, false},
		{guard.ErrDraining, TypeDraining, false},
		{guard.ErrMismatch, TypeMismatch, true},
		{guard.ErrInvalidKey, TypeInvalidKey, true},
		{guard.ErrInvalidInput, TypeInvalidInput, true},
		{guard.ErrNestedCall, TypeNestedCall, true},
	} {
		var got *temporal.ApplicationError
		wrapped := fmt.Errorf("onceguard: %w", test.err)
		if err := toTemporal(wrapped); !errors.As(err, &got) || !errors.Is(err, test.err) {
			t.Errorf("%v became %v, want an application error of that cause", test.err, err)
			continue
		}
		if got.Type() != test.want || got.NonRetryable() != test.final {
			t.Errorf("%v became type %q, final %t; want %q, %t", test.err, got.Type(), got.NonRetryable(), test.want, test.final)
		}
	}
}

func TestNotRun_LooksAtTheOutermostErrorOfTheGuard(t *testing.T) {
	t.Parallel()
	declined := temporal.NewNonRetryableApplicationError("no", "Declined", nil)
	remembered := &guard.RememberedError{Err: declined}
	for name, test := range map[string]struct {
		err     error
		fails   int // of the data converter's calls
		want    string
		final   bool
		delay   time.Duration
		details bool
	}{
		"remembered":         {remembered, 0, "Declined", true, 0, false},
		"unknown":            {&guard.OutcomeUnknownError{Fence: 7}, 0, TypeOutcomeUnknown, true, 0, true},
		"unknown, too early": {&guard.OutcomeUnknownError{RetryAfter: time.Minute}, 0, TypeOutcomeUnknown, false, time.Minute, true},
		"unknown, almost":    {&guard.OutcomeUnknownError{RetryAfter: 1}, 0, TypeOutcomeUnknown, false, minRetryDelay, true},
		"the hook's own calls": {
			&guard.OutcomeUnknownError{Err: errors.Join(remembered, &guard.InProgressError{}, guard.ErrStorage)},
			0, TypeOutcomeUnknown, true, 0, true,
		},
		"no details now": {&guard.OutcomeUnknownError{}, 1, TypeOutcomeUnknown, false, 0, false},
	} {
		data := &outage{converter.GetDefaultDataConverter(), test.fails}
		got, ok := notRun(test.err, "Charge", "o-1", data).(*temporal.ApplicationError) //nolint:errorlint // the SDK looks at the outermost
		if !ok || got.Type() != test.want || got.NonRetryable() != test.final ||
			got.NextRetryDelay() != test.delay || got.HasDetails() != test.details {
			t.Errorf("%s became %v", name, got)
		}
	}
}
