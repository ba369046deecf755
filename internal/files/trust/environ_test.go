package trust

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestEnviron(t *testing.T) {
	for kv, want := range map[string]string{
		"LD_LIBRARY_PATH=tmp:/a;b:/c:": "LD_LIBRARY_PATH=/a:/c",
		"PYTHONPATH=:../x":             "PYTHONPATH=",
		"PYTHONHOME=/a:":               "PYTHONHOME=/a:",
		"PYTHONPATH=/a b;c":            "PYTHONPATH=/a b;c",
		"LD_PRELOAD=liba.so tmp/b.so":  "LD_PRELOAD=liba.so",
		"LD_PRELOAD=liba.so /b.so":     "LD_PRELOAD=liba.so /b.so",
		"OTHER=tmp:b":                  "OTHER=tmp:b",
		"OTHER":                        "OTHER",
	} {
		check.Slice(t, Environ([]string{kv}), []string{want})
	}
}
