package main

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestLastHost(t *testing.T) {
	names := []string{"f1", "f2", "g1"}
	for typed, want := range map[string]string{"": "f1 f2 g1", "f": "f1 f2", "f1,": "f1,f2 f1,g1", "f1:2,f": "f1:2,f2",
		"^f": "^f1 ^f2", "ada@g": "ada@g1", "x": ""} {
		check.Equal(t, strings.Join(lastHost(typed, names), " "), want, typed)
	}
}
