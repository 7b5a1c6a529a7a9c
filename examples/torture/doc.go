// Package torture kills and stops processes in the middle of a guarded charge, on a
// real Redis and with the example provider, and holds what comes of it to what
// docs/unknown-outcomes.md says:
//
//	go -C examples test ./torture            the table, and a few faults at random
//	make faults                              200 faults at random in each of two set-ups
//	make faults COUNT=1000 SEED=42           as many, from this seed
//
// The test binary is the process that is killed, too: in the role of a child it makes
// one call and halts where it is told to.
package torture
