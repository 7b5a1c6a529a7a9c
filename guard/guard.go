package guard

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// Guard makes operations on one store. It is safe for use by many goroutines.
type Guard struct {
	store    Store
	observer Observer
	label    string
	defaults settings
	calls    *calls
	leases   leases
	ghosts   atomic.Int32 // reservations that never ran and are yet to be given back
	claims   sync.Map     // operation name to claim: operations of one name share records
}

// New returns a guard on a store. The options are the defaults of its
// operations. Every fault in them is reported, joined in one error.
func New(store Store, opts ...GuardOption) (*Guard, error) {
	config := guardConfig{label: defaultLabel(), defaults: defaultSettings()}
	faults := []error{checkStore(store)}
	for i, o := range opts {
		if o == nil {
			faults = append(faults, fmt.Errorf("option %d is nil: leave it out", i))
			continue
		}
		o.applyGuard(&config)
	}
	if err := checkLabel(config.label); err != nil {
		faults = append(faults, err)
	}
	resolved := config.defaults
	faults = append(faults, resolved.resolve())
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("onceguard: new guard: %w", err)
	}
	return &Guard{store: store, observer: config.observer, label: config.label, defaults: config.defaults, calls: newCalls()}, nil
}

// checkStore finds a nil store, typed or not, before the first call does.
func checkStore(store Store) error {
	v := reflect.ValueOf(store)
	if store == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("store is nil: give one, such as NewMemoryStore() or redisx.New")
	}
	return nil
}

// claim is what the operations of one name have in common.
type claim struct {
	result   reflect.Type
	protects bool
	hashed   bool
}

// claim binds an operation's name to a result type, since another type would read the
// records of the first as what they are not, and to whether its runs are protected,
// since one without would run again what the other holds, and to what the store calls its keys.
func (g *Guard) claim(name string, now claim) error {
	loaded, _ := g.claims.LoadOrStore(name, now)
	switch first := loaded.(claim); {
	case first.result != now.result:
		return fmt.Errorf("it was made with results of %s already, now of %s: use another name", first.result, now.result)
	case first.protects != now.protects:
		return errors.New("it was made with AtMostOnce, MarkDispatch or WithRecovery and also without: give both the same options, or use another name")
	case first.hashed != now.hashed:
		return errors.New("it was made with WithHashedKeys and also without, so each would run what the other has done: give both the same options, or use another name")
	}
	return nil
}

// sharesStore reports whether two guards keep their records in one store.
func (g *Guard) sharesStore(other *Guard) bool {
	return g == other ||
		reflect.ValueOf(g.store).Comparable() && reflect.ValueOf(other.store).Comparable() && g.store == other.store
}

// storeName asks a store what it calls itself, and else tells its type.
func storeName(store Store) string {
	if named, ok := store.(interface{ StoreName() string }); ok {
		return named.StoreName()
	}
	return fmt.Sprintf("%T", store)
}

func checkLabel(label string) error {
	if !utf8.ValidString(label) || strings.ContainsFunc(label, unicode.IsControl) || len(label) > MaxKeyBytes {
		return fmt.Errorf("owner label %.40q: at most %d bytes of UTF-8 without control characters", label, MaxKeyBytes)
	}
	return nil
}

func defaultLabel() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
