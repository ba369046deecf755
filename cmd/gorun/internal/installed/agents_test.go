package installed

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// zipped compresses the file at path into another.
func zipped(t *testing.T, content []byte, path string) {
	t.Helper()
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	must.Get(zip.Write(content))(t)
	must.OK(t, zip.Close())
	must.OK(t, os.WriteFile(path, packed.Bytes(), 0o600))
}

func TestOtherSaysWhyItDoesNotUseAFile(t *testing.T) {
	self := must.Get(os.ReadFile("/proc/self/exe"))(t)
	foreign := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	for _, tc := range []struct {
		name, machine, file string
		content             []byte
		want                string
	}{
		{"no file", machine[foreign], "", nil, "no such file"},
		{"a machine of another kind", "s390x", "", nil, "there is no gorun for it"},
		{"no program", machine[foreign], foreign, []byte("text"), "unrecognized file format"},
		{"a program for another machine", machine[foreign], foreign, self, "it is for linux/" + runtime.GOARCH},
		{"the right one", machine[runtime.GOARCH], runtime.GOARCH, self, ""},
	} {
		dir := t.TempDir()
		gorun := filepath.Join(dir, "gorun")
		if tc.file != "" {
			zipped(t, tc.content, filepath.Join(dir, "gorun-linux-"+tc.file+".gz"))
		}
		exe, err := other(gorun, tc.machine)
		switch {
		case tc.want == "" && (err != nil || exe.Build == "" || exe.Path != gorun):
			t.Errorf("%s: %+v, %v", tc.name, exe, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v; want %q", tc.name, err, tc.want)
		}
		if tc.name == "no file" && !strings.Contains(usage.Hint(err), "make agents") {
			t.Errorf("hint %q", usage.Hint(err))
		}
	}
}
