package workdir

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/wire"
)

// FuzzReceive checks that no offer and no tar makes a host write outside the folder of copies.
func FuzzReceive(f *testing.F) {
	archive := func(names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			_ = w.WriteHeader(&tar.Header{Name: name, Size: 4, Typeflag: tar.TypeReg, Mode: 0o644})
			_, _ = w.Write([]byte("text"))
		}
		w.Close()
		return b.Bytes()
	}
	offer := func(entries ...Entry) []byte {
		text, err := json.Marshal(Offer{Copy: "c-1", Machine: "m", Dir: "/d", Entries: entries})
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	for _, seed := range [][2][]byte{
		{offer(file("a", 4, 1)), archive("a")},
		{offer(folder("d"), file("d/a", 4, 1), Entry{Path: "l", Kind: Link, Target: "d"}), archive("d/a")},
		{offer(file("../a", 4, 1)), archive("../a")},
		{offer(file("a", 4, 1)), archive("../../a", "/tmp/a")},
		{offer(Entry{Path: "l", Kind: Link, Target: "../.."}), nil},
		{offer(Entry{Path: "l", Kind: Link, Target: "/"}, file("l/a", 4, 1)), archive("l/a")},
		{[]byte(`{"copy":"../x","entries":[]}`), nil},
		{[]byte(`{"copy":".","entries":[{"path":"a","kind":"file","size":4}]}`), archive("a")},
		{offer(file("a", 5, 1), file("b", 4, 1)), archive("b")},
		{offer(file("a", 1<<40, 1)), nil},
	} {
		f.Add(seed[0], seed[1], []byte(`{"entries":[{"path":"a","kind":"file","size":1}]}`))
	}
	f.Fuzz(func(t *testing.T, offered, sent, state []byte) {
		home := t.TempDir()
		base := filepath.Join(home, ".cache/gorun/work")
		if err := os.MkdirAll(filepath.Join(base, "c-1"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"c-1.json": state, "../../outside": []byte("x"), "c-1/a": []byte("y")} {
			if err := os.WriteFile(filepath.Join(base, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var stream bytes.Buffer
		for _, part := range [][]byte{offered, sent} {
			zip, _ := gzip.NewWriterLevel(&stream, gzip.NoCompression)
			_, _ = zip.Write(part)
			zip.Close()
		}
		none := func() (wire.Frame, error) { return wire.Frame{}, io.EOF }
		_ = Receive(stream.Bytes(), none, wire.NewWriter(io.Discard), home)
		above, _ := os.ReadDir(filepath.Dir(base))
		top, _ := os.ReadDir(filepath.Join(home, ".cache"))
		text, err := os.ReadFile(filepath.Join(home, ".cache/outside"))
		if len(above) != 1 || len(top) != 2 || string(text) != "x" || err != nil {
			t.Fatalf("outside of the copies: %v, %v, %q %v", above, top, text, err)
		}
	})
}
