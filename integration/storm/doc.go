// Package storm kills the workers of a few hundred Temporal workflows, again and again, while they charge
// orders at a payment provider that books whatever it is asked to, and counts the charges:
//
//	go -C integration test ./storm     a short storm
//	make soak                          500 workflows, and two minutes of kills
//	make soak COUNT=1000 SEED=42       as many, with the choices of this seed
//
// The same storm comes twice: over workers that guard the activity, with a business key and a recovery hook
// on a real Redis, and over workers that do not. With the guard each order is charged once, each workflow
// completes with the receipt of that charge, and no key is left open. Without it some order is charged more
// than once, or else the storm was none.
//
// A seed repeats what is chosen: which workflows ask for the order of another one, how long each worker lives, and
// how long the provider and the reports take. It does not repeat the order of events, which the machine decides.
//
// The test binary is the worker that is killed, too, in the role of a child.
package storm
