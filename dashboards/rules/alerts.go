package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// Names of the alerts.
const (
	DoubleRunSuspected     = "OnceguardDoubleRunSuspected"
	LeaseLost              = "OnceguardLeaseLost"
	RenewalsLate           = "OnceguardRenewalsLate"
	StorageErrorBudgetBurn = "OnceguardStorageErrorBudgetBurn"
	UnguardedRuns          = "OnceguardUnguardedRuns"
	WaitersPilingUp        = "OnceguardWaitersPilingUp"
	LeaseTooOld            = "OnceguardLeaseTooOld"
	KeysHeld               = "OnceguardKeysHeld"
	OutcomesUnknown        = "OnceguardOutcomesUnknown"
	ResultsNotStored       = "OnceguardResultsNotStored"
	LogLinesDropped        = "OnceguardLogLinesDropped"
	StoreLosesRecords      = "OnceguardStoreLosesRecords"
)

// recent is how far the alerts about single events look back. It is also how long they fire after
// the last one, so it is longer than it takes to open the runbook.
const recent = 15 * time.Minute

// Limits that are a judgement: change them here.
const (
	// Objective is the share of calls that may meet a storage error.
	errorBudget = 0.001
	// LateRatio is the part of its lease that a healthy renewal never goes below: renewals are sent
	// every third, so 0.67 is left when one lands, and 0.33 after one that failed. It is a bucket.
	LateRatio = "0.4"
	lateShare = 0.1
	// fewRenewals say nothing.
	fewRenewals = 10
	// OldLeases is after how many lengths of its lease a reservation is too old.
	OldLeases = 20
	// Waiters pile up when there are this many, and so many for each running action.
	manyWaiters      = 20
	waitersPerHolder = 5
	fewErrors        = 5 // in the long window: no alarm for single ones of a quiet operation
)

func (p pace) alerts() []Rule {
	return slices.Concat(p.doubleRuns(), p.leases(), p.storage(), p.outcomes())
}

func (p pace) doubleRuns() []Rule {
	return []Rule{
		p.rule(alert{
			name: DoubleRunSuspected, severity: Critical,
			expr:    p.happened(recent, telemetry.MetricStaleResults) + " > 0",
			summary: "{{ $labels.operation }} of {{ $labels.job }}: a result was refused, the effect may have happened twice",
			meaning: "The result of a run was refused as stale: another owner had the key, or somebody has settled it. " +
				"Without a recovery hook the action has probably run twice, a customer paid twice. With a hook it is no " +
				"proof: the hook may have found the effect of this very run and stored it.",
			action: "take the key hash and the trace from the log line \"result refused\", and look at the other side " +
				"whether there are two effects; the record has the trace of the other run.",
		}),
		p.rule(alert{
			name: UnguardedRuns, severity: Critical,
			expr: lines(
				p.happened(recent, telemetry.MetricUnguarded, telemetry.LabelReason)+" > 0",
				"and on (job, operation)",
				fmt.Sprintf("group by (job, operation) (%s{%s=%q})",
					telemetry.MetricOperationInfo, telemetry.LabelOnStorageError, guard.FailClosed),
			),
			summary: "{{ $labels.operation }} of {{ $labels.job }} is set to fail closed and ran without a reservation " +
				"({{ $labels.reason }})",
			meaning: "An operation that must not run without its store did: the guard is switched off (disabled), it is in " +
				"the Run mode (in_flight), or a process with other settings runs under the same name (storage). Nothing keeps " +
				"a duplicate of these calls from having its effect.",
			action: "find the instances by the reason, and switch the guard on again or stop them.",
		}),
	}
}

func (p pace) leases() []Rule {
	return []Rule{
		p.rule(alert{
			name: LeaseLost, severity: Critical,
			expr:    p.happened(recent, telemetry.MetricLeasesLost) + " > 0",
			summary: "{{ $labels.operation }} of {{ $labels.job }} lost a lease while its action ran",
			meaning: "The store gave the key to somebody else, or a whole lease passed without one renewal, or the action " +
				"outlived its limit. The action goes on by default, and another owner may begin the same one now.",
			action: "read the reason in the log line \"lease lost\": expired is this process or its way to the store, taken is " +
				"the store, max_hold is an action that hangs.",
		}),
		p.rule(alert{
			name: RenewalsLate, severity: Warning, wait: 5 * time.Minute,
			expr: lines(
				p.lateRenewals(10*time.Minute),
				fmt.Sprintf("> %g", lateShare),
				fmt.Sprintf("and sum by (job, operation) (increase(%s_count[%s])) > %d", telemetry.MetricLeaseRemaining, p.of(10*time.Minute), fewRenewals),
			),
			summary: "{{ $labels.operation }} of {{ $labels.job }}: {{ $value | humanizePercentage }} of the renewals land late",
			meaning: "Renewals are sent when two thirds of the lease are left. These landed with less than " + LateRatio + " of it " +
				"left: one was lost or slow. A little more, and leases are lost while their actions run.",
			action: "compare the durations of the phase renew with those of reserve: both slow is the store or the network, " +
				"neither is a process that stands still (CPU limit, garbage collection, a host that swaps).",
		}),
		p.rule(alert{
			name: LeaseTooOld, severity: Warning, wait: time.Minute,
			expr: lines(
				fmt.Sprintf("max by (job, instance, operation) (%s)", telemetry.MetricOldestLeaseAge),
				fmt.Sprintf("> %d * max by (job, instance, operation) (%s)", OldLeases, telemetry.MetricOperationLease),
			),
			summary: "{{ $labels.operation }} on {{ $labels.instance }} has held a key for {{ $value | humanizeDuration }}",
			meaning: fmt.Sprintf("An action has run for more than %d times its lease. As long as its key is renewed nothing else "+
				"takes it: if the action hangs, its customer waits for good, and so do all callers with that key.", OldLeases),
			action: "find the key on the lease page of that instance, or with Guard.List, and its trace: is the action at work?",
		}),
		p.rule(alert{
			name: WaitersPilingUp, severity: Warning, wait: 5 * time.Minute,
			expr: lines(
				fmt.Sprintf("sum by (job, operation) (%s) > %d", telemetry.MetricWaiters, manyWaiters),
				"and",
				fmt.Sprintf("sum by (job, operation) (%s)", telemetry.MetricWaiters),
				fmt.Sprintf("> %d * sum by (job, operation) (%s)", waitersPerHolder, telemetry.MetricLeasesHeld),
			),
			summary: "{{ $labels.operation }} of {{ $labels.job }}: {{ $value }} calls wait for keys of others",
			meaning: "Many calls wait for few owners: a caller sends the same key again and again, an owner is slow, or owners " +
				"died and their leases run out. Each waiter takes a worker slot or a request that does nothing.",
			action: "look at takeovers (dead owners) and the oldest lease (slow owner); else find the caller that repeats itself.",
		}),
	}
}

// lateRenewals is the share of the renewals that landed late.
func (p pace) lateRenewals(window time.Duration) string {
	w := p.of(window)
	return lines(
		fmt.Sprintf("sum by (job, operation) (rate(%s_bucket{le=%q}[%s]))", telemetry.MetricLeaseRemaining, LateRatio, w),
		fmt.Sprintf("/ sum by (job, operation) (rate(%s_count[%s]))", telemetry.MetricLeaseRemaining, w),
	)
}
