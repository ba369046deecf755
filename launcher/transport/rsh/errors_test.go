package rsh

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestLastLinesOfLaunchAgents(t *testing.T) {
	const logged = `E1128 09:40:33.697999   25786 memcache.go:265] "Unhandled Error" err="couldn't get current server"`
	const refused = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
	for text, want := range map[string]string{
		"":                           "",
		"a\n\n b \n":                 "a; b",
		"a\nb\nc\nd":                 "b; c; d",
		"+ kubectl exec\nno pod\x1b": "no pod?",
		logged + "\n" + logged + "\n" + refused + "\n": refused,
		logged + "\n" + logged:                         logged,
	} {
		check.Equal(t, lastLines(text), want, text)
	}
}
