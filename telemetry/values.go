package telemetry

import (
	"slices"

	"github.com/onceguard/onceguard/guard"
)

// The values of the labels. guard's own lists are used where it has them, and a
// test reads guard's source for constants that are missing here.

// numPhases is the number of phases that have a duration and a span.
const numPhases = 6

func timedPhases() [numPhases]guard.Phase {
	return [numPhases]guard.Phase{
		guard.PhaseReserve, guard.PhaseWait, guard.PhaseRenew, guard.PhaseReplace, guard.PhaseRelease,
		guard.PhaseRecover,
	}
}

// phaseIndex is the place of a phase in timedPhases, -1 for an unknown one.
func phaseIndex(p guard.Phase) int {
	phases := timedPhases()
	return slices.Index(phases[:], p)
}

// storagePhases are the phases in which a store call can fail.
func storagePhases() []guard.Phase {
	return []guard.Phase{
		guard.PhaseReserve, guard.PhaseLoad, guard.PhaseRenew, guard.PhaseReplace, guard.PhaseRelease,
		guard.PhaseNotify,
	}
}

func unguardedReasons() []string {
	return []string{guard.ReasonStorage, guard.ReasonInFlight, guard.ReasonDisabled}
}

func unstoredReasons() []string {
	return []string{guard.ReasonTooLarge, guard.ReasonEncoding, guard.ReasonStorage}
}

func heldReasons() []string {
	return []string{
		guard.ReasonPolicy, guard.ReasonDispatched, guard.ReasonUnwound, guard.ReasonUnstored,
		guard.ReasonCannotTell, guard.ReasonAbandoned,
	}
}

// renewalError is the result of a renewal that the store did not answer.
const renewalError = "error"

func renewalResults() []string {
	return []string{
		string(guard.RenewOK), string(guard.RenewRestored), string(guard.RenewLost), renewalError,
	}
}

// Values of the labels result, of an action, and dispatched.
const (
	actionOK          = "ok"
	actionError       = "error"
	actionInterrupted = guard.ReasonInterrupted
	dispatchedYes     = "true"
	dispatchedNo      = "false"
)

// knownClass keeps the class that a foreign store made up out of the labels.
func knownClass(class guard.ErrorClass) guard.ErrorClass {
	if slices.Contains(guard.ErrorClasses(), class) {
		return class
	}
	return guard.ClassOther
}

// Buckets of the histograms, upper bounds in the unit of the metric.

func phaseBuckets() []float64 {
	return []float64{
		0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	}
}

func actionBuckets() []float64 {
	return []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600,
	}
}

func ratioBuckets() []float64 {
	return []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
}

func byteBuckets() []float64 {
	return []float64{1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22}
}
