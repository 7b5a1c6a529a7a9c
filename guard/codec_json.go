package guard

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// unreadableJSON says why encoding/json cannot write values of a type, or writes
// them but cannot read them back, or "". Such a result would never be stored, or be
// found unreadable by every duplicate.
func unreadableJSON(t reflect.Type, seen []reflect.Type) string {
	if readsItself(t) || slices.Contains(seen, t) {
		return ""
	}
	seen = append(seen, t)
	if writesItself(t) {
		return ""
	}
	is := func(kinds ...reflect.Kind) bool { return slices.Contains(kinds, t.Kind()) }
	switch {
	case t.Kind() == reflect.Interface && t.NumMethod() > 0:
		return fmt.Sprintf("%s is an interface with methods, and JSON does not say which type is in it", t)
	case is(reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer):
		return fmt.Sprintf("%s has no JSON form", t)
	case t.Kind() == reflect.Pointer:
		return unreadableJSON(t.Elem(), seen[:len(seen)-1])
	case is(reflect.Slice, reflect.Array, reflect.Map):
		return unreadableJSON(t.Elem(), seen)
	case len(seen) == 1 && showsNothing(t):
		return fmt.Sprintf("%s has no exported field, so JSON holds nothing of it", t)
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
