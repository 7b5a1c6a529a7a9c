// Package torture kills and stops processes in the middle of a guarded charge, on a
// real Redis and with the example provider, and holds what comes of it to what
// docs/unknown-outcomes.md says:
//
//	go -C examples test ./torture            the table, and a few faults at random
//	make faults                              200 faults at random in each of two set-ups
//	make faults COUNT=1000 SEED=42           as many, with the choices of this seed
//
// A seed repeats what is chosen: how many there are in a round, when each of them comes, what its fault is and
// where, and what becomes of its first request, its second and so on. It does not repeat the
// order of events, which the machine decides, nor how many rounds there are. So a failure need
// not come again with its seed; its story is in its message.
//
// From 200 faults on, a run fails also if there is a point at which nobody met one.
//
// The test binary is the process that is killed, too: in the role of a child it makes
// one call and halts where it is told to.
package torture
