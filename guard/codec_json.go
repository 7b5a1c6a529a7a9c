package guard

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// CheckResult refuses result types that encoding/json cannot write, or writes and
// cannot read back: such a result would never be stored, or be found unreadable by
// every duplicate.
func (jsonCodec) CheckResult(ptr any) error {
	t := reflect.TypeOf(ptr).Elem()
	what := unreadableJSON(t, nil)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if showsNothing(t) && !readsItself(t) {
		what = fmt.Sprintf("%s has no exported field, so JSON holds nothing of it", t)
	}
	if what != "" {
		return fmt.Errorf("codec JSON: %s: use a type that JSON can read, or another codec", what)
	}
	return nil
}

// unreadableJSON says what is wrong with a type or its elements, or "".
func unreadableJSON(t reflect.Type, seen []reflect.Type) string {
	if readsItself(t) || writesItself(t) || slices.Contains(seen, t) {
		return ""
	}
	is := func(kinds ...reflect.Kind) bool { return slices.Contains(kinds, t.Kind()) }
	switch {
	case t.Kind() == reflect.Interface && t.NumMethod() > 0:
		return fmt.Sprintf("%s is an interface with methods, and JSON does not say which type is in it", t)
	case is(reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer):
		return fmt.Sprintf("%s has no JSON form", t)
	case is(reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map):
		return unreadableJSON(t.Elem(), append(seen, t))
	default:
		return ""
	}
}

// showsNothing reports a struct of which encoding/json writes nothing, although it
// has something to write. What is in the fields of other structs is left to the
// user: a nil there is written and read well whatever its type.
func showsNothing(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.NumField() == 0 || writesItself(t) {
		return false
	}
	if _, isProtobuf := reflect.PointerTo(t).MethodByName("ProtoReflect"); isProtobuf {
		return false // a message without fields
	}
	for field := range t.Fields() {
		if field.IsExported() || field.Anonymous {
			return false
		}
	}
	return true
}

// writesItself reports a type with a method for it.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// readsItself reports a type with a method for it.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
