package telemetry

import "github.com/onceguard/onceguard/guard"

// evidence is that of another owner in a record: its effect may have happened. A
// record's own dispatch is none.
func evidence(r *guard.Record) *guard.Dispatch {
	if r == nil || r.Dispatch == nil || r.Dispatch.Owner.Token == r.Owner.Token {
		return nil
	}
	return r.Dispatch
}
