// Package untrusted decodes messages of peers that may be hostile.
package untrusted

import (
	"encoding/json"
	"fmt"
)

// Unmarshal decodes JSON of at most so many values. A bound on its bytes bounds no memory: three of
// them may become a structure of hundreds.
func Unmarshal(text []byte, most int, into any) error {
	if hasMore(text, most) {
		return fmt.Errorf("more than %d values", most)
	}
	return json.Unmarshal(text, into)
}

// hasMore reports whether valid JSON has more than so many values. Each value but the first follows
// a comma or the bracket of what it is in.
func hasMore(text []byte, most int) bool {
	values := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ',', '[', '{':
			if values++; values > most {
				return true
			}
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return false
}
