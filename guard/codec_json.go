package guard

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// unreadableJSON says which part of a type encoding/json cannot write, or writes
// but cannot read back, or "". Such a result would never be stored, or be found
// unreadable by every duplicate.
func unreadableJSON(t reflect.Type, seen []reflect.Type) string {
	if readsItself(t) || slices.Contains(seen, t) {
		return ""
	}
	seen = append(seen, t)
	is := func(kinds ...reflect.Kind) bool { return slices.Contains(kinds, t.Kind()) }
	switch {
	case t.Kind() == reflect.Interface && t.NumMethod() > 0:
		return fmt.Sprintf("%s is an interface with methods, and JSON does not say which type is in it", t)
	case is(reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer):
		return fmt.Sprintf("%s has no JSON form", t)
	case is(reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map):
		return unreadableJSON(t.Elem(), seen)
	case t.Kind() == reflect.Struct:
		return unreadableFields(t, seen)
	default:
		return ""
	}
}

func unreadableFields(t reflect.Type, seen []reflect.Type) string {
	exported := 0
	for field := range t.Fields() {
		if field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
			continue
		}
		exported++
		if what := unreadableJSON(field.Type, seen); what != "" {
			return what
		}
	}
	if exported == 0 && t.NumField() > 0 {
		return fmt.Sprintf("%s has no exported field, so JSON holds nothing of it", t)
	}
	return ""
}

// readsItself reports a type with a method for it.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
