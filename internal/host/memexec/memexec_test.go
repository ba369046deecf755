package memexec

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// limit stands for MaxSize where that would take long.
const limit = 100_000

// run runs a received file as its users do: by an inherited descriptor.
func run(file *os.File) (string, error) {
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.Output()
	return string(out), err
}

// A script and a binary run, and no folder has them.
func TestReceivedProgramsRun(t *testing.T) {
	binary := must.Get(os.ReadFile("/bin/echo"))(t)
	for name, tt := range map[string]struct{ program, want string }{
		"script": {"#!/bin/sh\nreadlink /proc/self/fd/3\n", "/memfd:name (deleted)\n"},
		"binary": {string(binary), "\n"},
	} {
		packed := must.Get(Pack([]byte(tt.program)))(t)
		file := must.Get(Receive("name", bytes.NewReader(packed)))(t)
		said, err := run(file)
		check.That(t, err == nil && said == tt.want, "%s: %q, %v", name, said, err)
		file.Close()
	}
}

func TestWhatIsNoProgram(t *testing.T) {
	file, err := Receive("name", strings.NewReader(""))
	check.That(t, file == nil && err == nil, "of nothing: %v, %v", file, err)
	whole := must.Get(Pack(make([]byte, 1000)))(t)
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = zip.Write(make([]byte, limit))
	zip.Close()
	for said, want := range map[string]string{
		"x":                                "receive name: unexpected EOF",
		"#!/bin/sh\n#            ":         "receive name: gzip: invalid header",
		string(whole[:len(whole)/2]):       "receive name: unexpected EOF",
		string(whole[:len(whole)-1]) + "x": "receive name: gzip: invalid checksum",
		bomb.String():                      "receive name: it is too large",
	} {
		file, err := receive("name", strings.NewReader(said), limit)
		check.That(t, file == nil && err != nil && err.Error() == want, "%.20q: %v, %v, want %s", said, file, err, want)
	}
}

// What is packed can be received: neither form is larger than hosts take.
func TestPackBounds(t *testing.T) {
	noise := make([]byte, limit-1)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	for name, tt := range map[string]struct {
		program []byte
		fits    bool
	}{
		"small":                     {make([]byte, 10), true},
		"as large as may be":        {make([]byte, limit-1), true},
		"too large":                 {make([]byte, limit), false},
		"too large when it's noise": {noise, false},
	} {
		packed, err := pack(tt.program, limit)
		check.That(t, (err == nil) == tt.fits, "%s: %v", name, err)
		if err != nil {
			continue
		}
		file, err := receive("name", bytes.NewReader(packed), limit)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file.Close()
	}
}

func FuzzReceive(f *testing.F) {
	packed := must.Get(Pack([]byte("#!/bin/sh\nexit\n")))(f)
	f.Add(packed)
	f.Add(packed[:len(packed)-3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, said []byte) {
		file, err := Receive("name", bytes.NewReader(said))
		if err != nil || file == nil {
			must.That(t, file == nil && (err != nil || len(said) == 0), "%v, %v", file, err)
			return
		}
		defer file.Close()
		size, err := file.Seek(0, io.SeekEnd)
		must.That(t, err == nil && size < MaxSize, "%d bytes, %v", size, err)
	})
}
