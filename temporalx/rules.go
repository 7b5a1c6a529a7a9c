package temporalx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onceguard/onceguard/guard"
)

// Rule says which activities are guarded, and how. It names them by one of Activity,
// Prefix and Match.
type Rule struct {
	// Activity is one activity type: the name that the activity is registered
	// with, by default that of its function.
	Activity string

	// Prefix is what the types begin with.
	Prefix string

	// Match says of a type whether the rule is for it. It must say the same each time and
	// in every process, and is called by many goroutines at once.
	Match func(activityType string) bool

	// Operation names the guard's operation: the kind of effect, which is part of every
	// record's key and a metric label. Default: the activity type, so that an activity that
	// is renamed starts with no results. With Activity it keeps them over a new name: give the
	// old one; two rules that give the same name say that both types are one
	// effect. With Prefix and Match all types of the rule share the
	// operation, and their keys begin with the type, so that they share no record.
	Operation string

	// Key makes the key of a call, unless the workflow has set one, see [WithKey]. Default
	// [DefaultKey].
	Key KeyFunc

	// Recovery asks what became of a run whose end nobody knows: see [RecoverWith].
	// Default: no hook. It takes the place of guard.WithRecovery.
	Recovery Recovery

	// Options are those of the guard's operation, on top of the guard's own. The
	// codecs of results and errors are always those of this package, and a stored
	// result that cannot be read is always an error: guard.OnUnreadable(guard.Refuse).
	Options []guard.OperationOption
}

// DefaultMaxOperations is how many activity types become operations of their own when
// Options.MaxOperations is not set.
const DefaultMaxOperations = 200

// anyActivity is the rule of an interceptor without rules.
func anyActivity() Rule { return Rule{Match: func(string) bool { return true }} }

// matches reports whether the rule is for a type.
func (r *Rule) matches(activityType string) bool {
	switch {
	case r.Activity != "":
		return r.Activity == activityType
	case r.Prefix != "":
		return strings.HasPrefix(activityType, r.Prefix)
	default:
		return r.Match(activityType)
	}
}

// shares reports whether several types have one operation.
func (r *Rule) shares() bool { return r.Operation != "" && r.Activity == "" }

// operation is the name of the operation of a type.
func (r *Rule) operation(activityType string) string {
	if r.Operation != "" {
		return r.Operation
	}
	return activityType
}

// named is the name of the operation, as far as the rule says it.
func (r *Rule) named() string { return r.operation(r.Activity) }

// String names the rule in errors.
func (r *Rule) String() string {
	switch {
	case r.Activity != "":
		return fmt.Sprintf("activity %q", r.Activity)
	case r.Prefix != "":
		return fmt.Sprintf("prefix %q", r.Prefix)
	case r.Match != nil:
		return "match"
	default:
		return "no activity"
	}
}

// check finds what the guard cannot find.
func (r *Rule) check() error {
	var faults []error
	names := 0
	for _, named := range []bool{r.Activity != "", r.Prefix != "", r.Match != nil} {
		if named {
			names++
		}
	}
	if names != 1 {
		faults = append(faults, fmt.Errorf("has %d of Activity, Prefix and Match: give exactly one", names))
	}
	for _, part := range []interface{ check() error }{r.Key, r.Recovery} {
		if !isNil(part) {
			faults = append(faults, part.check())
		}
	}
	return errors.Join(faults...)
}

// checkRules finds what is wrong with each rule, and with each beside those before it.
func checkRules(rules []Rule) error {
	var faults []error
	for i := range rules {
		r := &rules[i]
		if err := r.check(); err != nil {
			faults = append(faults, fmt.Errorf("rule %d: %s: %w", i, r, err))
		}
		for j := range i {
			if err := r.checkAfter(j, &rules[j]); err != nil {
				faults = append(faults, fmt.Errorf("rule %d: %s %w", i, r, err))
			}
		}
	}
	return errors.Join(faults...)
}

// checkAfter finds a rule that never comes to its turn, and one that would have the
// records of other activities.
func (r *Rule) checkAfter(n int, earlier *Rule) error {
	switch {
	case r.Activity != "" && r.Activity == earlier.Activity, r.Prefix != "" && r.Prefix == earlier.Prefix:
		return fmt.Errorf("has rule %d already", n)
	case earlier.covers(r):
		return fmt.Errorf("has the earlier rule %d, %s: put the narrower one first", n, earlier)
	case r.shares() != earlier.shares() && r.named() == earlier.named():
		return fmt.Errorf("and rule %d, %s, have one operation, but keys of two forms: name another", n, earlier)
	}
	return nil
}

// covers reports whether the rule is for every type that a later one is for, as far as
// names can tell.
func (r *Rule) covers(later *Rule) bool {
	return r.Prefix != "" && strings.HasPrefix(later.Activity+later.Prefix, r.Prefix)
}
