package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestVersionTellsTagAndCommit(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}
	var text strings.Builder
	must.OK(t, versionOf(info).write(&text, true))
	var got map[string]any
	must.OK(t, json.Unmarshal([]byte(text.String()), &got), text.String())
	for key, want := range map[string]any{"version": "v1.2.3", "commit": "abc", "modified": true, "os": runtime.GOOS,
		"arch": runtime.GOARCH} {
		check.Equal(t, got[key], want, key)
	}
	if text := versionOf(info).String(); !strings.HasPrefix(text, "gorun v1.2.3 abc, protocol ") {
		t.Errorf("%q", text)
	}
	if text := versionOf(nil).String(); !strings.HasPrefix(text, "gorun (devel), protocol ") {
		t.Errorf("%q, built without records", text)
	}
}
