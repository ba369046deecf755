package workdir

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/must"
)

// answerer gets the agent's answers.
type answerer func(text []byte)

func (a answerer) Write(p []byte) (int, error) { a(p); return len(p), nil }

// FuzzReceive checks that no offer and no tar makes a host write outside the folder of copies.
func FuzzReceive(f *testing.F) {
	archive := func(names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			_ = w.WriteHeader(&tar.Header{
				Name:     name,
				Size:     4,
				Typeflag: tar.TypeReg,
				Mode:     0o644,
			})
			_, _ = w.Write([]byte("text"))
		}
		w.Close()
		return b.Bytes()
	}
	offer := func(entries ...Entry) []byte {
		return must.Get(json.Marshal(Offer{
			Copy:    "c-1",
			Machine: "m",
			Dir:     "/d",
			Entries: entries,
		}))(f)
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
		must.OK(t, os.MkdirAll(filepath.Join(base, "c-1"), 0o700))
		for name, text := range map[string][]byte{"c-1.json": state, "../../outside": []byte("x"),
			"c-1/a": []byte("y")} {
			must.OK(t, os.WriteFile(filepath.Join(base, name), text, 0o600))
		}
		packed := func(part []byte) []byte {
			var b bytes.Buffer
			zip, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
			_, _ = zip.Write(part)
			zip.Close()
			return b.Bytes()
		}
		sums := sha256.Sum256(packed(sent))
		about := must.Get(json.Marshal(wire.Offer{
			Size:  int64(len(packed(sent))),
			Chunk: 256 << 10,
			Sums:  sums[:],
			Key:   make([]byte, 32),
		}))(t)
		frames := []wire.Frame{{Type: wire.TypeOffer, Payload: about},
			{Type: wire.TypePeers, Payload: []byte(`{"Whole":true}`)}}
		asked := make(chan struct{})
		answers := wire.NewWriter(answerer(func(text []byte) {
			if bytes.Contains(text, []byte(`"Feed":true`)) {
				close(asked)
			}
		}))
		_ = Receive(t.Context(), packed(offered), func() (f wire.Frame, err error) {
			if len(frames) == 0 {
				return f, io.EOF
			}
			f = frames[0]
			frames = frames[1:]
			if f.Type == wire.TypePeers {
				frames = append(frames, wire.Frame{Type: wire.TypePiece, Payload: packed(sent)},
					wire.Frame{Type: wire.TypeEnough})
			} else if f.Type == wire.TypePiece {
				<-asked
			}
			return f, nil
		}, answers, home)
		above, _ := os.ReadDir(filepath.Dir(base))
		top, _ := os.ReadDir(filepath.Join(home, ".cache"))
		text, err := os.ReadFile(filepath.Join(home, ".cache/outside"))
		must.That(t, len(above) == 1 && len(top) == 2 && string(text) == "x" && err == nil,
			"outside of the copies: %v, %v, %q %v", above, top, text, err)
	})
}
