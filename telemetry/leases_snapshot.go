package telemetry

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// How a lease is, from bad to good.
const (
	leaseLost = "lost" // the loss was reported
	leaseOver = "over" // its time is over, and nobody has reported that yet
	leaseLate = "late" // less than lateShare of it is left: a renewal is overdue
	leaseFine = "fine"

	// lateShare is well under the two thirds that are left when a renewal is due, so that one on its
	// way is not called late, and well over the last third, in which renewals are tried in a hurry.
	lateShare = 0.5
)

// leasesSnapshot is the JSON of the leases, and what the page is made of.
type leasesSnapshot struct {
	At     time.Time   `json:"at"`
	Owner  string      `json:"owner"`
	Total  int         `json:"total"`
	Hidden int         `json:"not_shown"`
	Counts leaseCounts `json:"counts"`
	Leases []leaseRow  `json:"leases"`
}

type leaseCounts struct {
	Lost int `json:"lost"`
	Over int `json:"over"`
	Late int `json:"late"`
	Fine int `json:"fine"`
}

type leaseRow struct {
	Operation  string    `json:"operation"`
	KeyHash    string    `json:"key_hash"`
	Key        string    `json:"key,omitempty"`
	Owner      string    `json:"owner"`
	Fence      int64     `json:"fence"`
	Attempt    int       `json:"attempt"`
	State      string    `json:"state"`
	Since      time.Time `json:"since"`
	RenewedAt  time.Time `json:"renewed_at"`
	Age        float64   `json:"age_seconds"`
	RenewalAge float64   `json:"renewal_age_seconds"`
	Lease      float64   `json:"lease_seconds"`
	Left       float64   `json:"left_seconds"`
	LeftRatio  float64   `json:"left_ratio"`
	Dispatched bool      `json:"dispatched"`
	TookOver   bool      `json:"took_over"`
	Previous   string    `json:"previous_owner,omitempty"`
	TraceID    string    `json:"trace_id,omitempty"`
	TraceURL   string    `json:"trace_url,omitempty"`
}

func (h *leasesHandler) snapshot(now time.Time) leasesSnapshot {
	held := h.guard.Leases()
	s := leasesSnapshot{At: now.UTC().Truncate(time.Millisecond), Owner: h.guard.OwnerLabel(), Total: len(held)}
	for _, lease := range held {
		switch leaseState(lease) {
		case leaseLost:
			s.Counts.Lost++
		case leaseOver:
			s.Counts.Over++
		case leaseLate:
			s.Counts.Late++
		default:
			s.Counts.Fine++
		}
	}
	held = held[:min(len(held), h.limit)]
	s.Hidden, s.Leases = s.Total-len(held), make([]leaseRow, len(held))
	for i, lease := range held {
		s.Leases[i] = h.row(lease, now)
	}
	return s
}

func (h *leasesHandler) row(lease guard.LeaseInfo, now time.Time) leaseRow {
	row := leaseRow{
		Operation: lease.Operation, KeyHash: lease.KeyHash, Owner: lease.Owner, Fence: lease.Fence, Attempt: lease.Attempt,
		State: leaseState(lease),
		Since: lease.Since.UTC().Truncate(time.Millisecond), RenewedAt: lease.RenewedAt.UTC().Truncate(time.Millisecond),
		Age: seconds(now.Sub(lease.Since)), RenewalAge: seconds(now.Sub(lease.RenewedAt)),
		Lease: seconds(lease.Lease), Left: seconds(lease.Left),
		LeftRatio:  math.Round(1000*float64(lease.Left)/float64(lease.Lease)) / 1000,
		Dispatched: lease.Dispatched, TookOver: lease.TookOver, Previous: lease.PreviousOwner, TraceID: lease.TraceID,
	}
	if h.showKeys {
		row.Key = lease.Key.Name
	}
	if h.traceURL != "" && lease.TraceID != "" {
		row.TraceURL = strings.Replace(h.traceURL, traceIDPlace, lease.TraceID, 1)
	}
	return row
}

func leaseState(lease guard.LeaseInfo) string {
	switch {
	case lease.Lost:
		return leaseLost
	case lease.Left <= 0:
		return leaseOver
	case float64(lease.Left) < lateShare*float64(lease.Lease):
		return leaseLate
	default:
		return leaseFine
	}
}

// seconds are rounded to what a reader can use.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// leaseDuration says for people how long something is. The script of the page has the same.
func leaseDuration(seconds float64) string {
	s := int(seconds)
	switch {
	case seconds < 10:
		return strconv.FormatFloat(math.Floor(10*seconds)/10, 'f', 1, 64) + " s"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 60*60:
		return fmt.Sprintf("%d m %02d s", s/60, s%60)
	case s < 24*60*60:
		return fmt.Sprintf("%d h %02d m", s/60/60, s/60%60)
	default:
		return fmt.Sprintf("%d d %d h", s/24/60/60, s/60/60%24)
	}
}

// leaseLeft says what is left of a lease. The script of the page has the same.
func leaseLeft(seconds float64) string {
	if seconds < 0 {
		return "over by " + leaseDuration(-seconds)
	}
	return leaseDuration(seconds) + " left"
}

// leaseBar is how much of the bar is filled.
func leaseBar(ratio float64) string {
	return strconv.FormatFloat(100*min(max(ratio, 0), 1), 'f', 1, 64) + "%"
}
