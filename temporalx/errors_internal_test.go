package temporalx

import (
	"errors"
	"fmt"
	"testing"

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
