// Package untrusted decodes messages of peers that may be hostile.
package untrusted

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Unmarshal decodes JSON of at most so many values. A bound on its bytes bounds no memory: three of
// them may become a structure of hundreds. It refuses base64 with line breaks, which no encoder
// writes: bytes would be kept in memory that is as long as the text, whatever their own length.
func Unmarshal(text []byte, most int, into any) error {
	if Values(text) > most {
		return fmt.Errorf("more than %d values", most)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	if hasBreak(text) && hasSpare(reflect.ValueOf(into)) {
		return errors.New("base64 with line breaks")
	}
	return nil
}

// hasBreak reports whether a string of valid JSON may have a line break.
func hasBreak(text []byte) bool {
	for _, escape := range []string{`\n`, `\r`, `\u000`} {
		if bytes.Contains(text, []byte(escape)) {
			return true
		}
	}
	return false
}

// spare is how much longer the memory of bytes may be than they are. Padding makes up 2 bytes.
const spare = 2

// hasSpare reports whether a decoded value has bytes whose memory is longer than they are.
func hasSpare(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && hasSpare(v.Elem())
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
	default:
		return false
	}
	if decodesItself(v.Type()) {
		return false
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if hasSpare(field) {
				return true
			}
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			if hasSpare(at.Value()) {
				return true
			}
		}
	default:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Cap() > v.Len()+spare
		}
		for i := range v.Len() {
			if hasSpare(v.Index(i)) {
				return true
			}
		}
	}
	return false
}

// decodesItself reports whether values of a type are not decoded by package json.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// Values returns the number of values in valid JSON. Each but the first follows a comma or the
// bracket of what it is in; what is empty counts as if it had one.
func Values(text []byte) int {
	values := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ',', '[', '{':
			values++
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return values
}
