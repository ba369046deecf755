//go:build cgo

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring"
)

// A timeline goes through no link of another user's, and into no file of theirs.
func TestTimelinesOfOthersAreRefused(t *testing.T) {
	lab.NeedRoot(t)
	const stranger = 65533
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	for name, make := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(precious, path) },
		"file": func(path string) error { return os.WriteFile(path, []byte("precious"), 0o666) },
		"name": func(path string) error { return os.Link(precious, path) },
	} {
		path := filepath.Join(dir, name)
		err := errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), make(path))
		if name != "name" {
			err = errors.Join(err, os.Lchown(path, stranger, stranger))
		}
		must.OK(t, err)
		foreign := new(trust.Error)
		check.Error((&trace{}).begin(nil, path, ring.TimelineOptions{})).As(t, &foreign, name)
		text, err := os.ReadFile(precious)
		check.That(t, err == nil && string(text) == "precious", "%s: the file has %q, %v", name, text, err)
		must.OK(t, os.Remove(path))
	}
}
