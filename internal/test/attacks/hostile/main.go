// Command hostile is in the place of gorun on a host. It answers a launcher that asks for files
// with the file list of a folder, and sends "evil" as the content of each. The file build there is
// its build.
//
//	hostile FOLDER __agent NONCE
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gorun/gorun/internal/net/wire"
)

const (
	evil  = "evil"
	chunk = 256 << 10
)

func main() {
	if err := serve(os.Args[1], os.Args[3]); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// serve answers until an error, which is io.EOF at the end of the input.
func serve(folder, nonce string) error {
	build, err := os.ReadFile(filepath.Join(folder, "build"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(folder, "list"))
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(append(wire.StartMark(nonce), wire.Preamble(nonce)...)); err != nil {
		return err
	}
	out := wire.NewWriter(os.Stdout)
	if err := out.SendMessage(wire.TypeHello, wire.Hello{Protocol: wire.Protocol, Build: string(build)}); err != nil {
		return err
	}
	in := wire.NewReader(os.Stdin)
	for {
		f, err := in.Next()
		if err != nil {
			return err
		}
		if f.Type != wire.TypeFetch {
			continue
		}
		if err := send(out, text); err != nil {
			return err
		}
	}
}

// send sends the list and its files, and waits for no answer.
func send(out *wire.Writer, text []byte) error {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err := zip.Write(text)
	if err := errors.Join(err, zip.Close(), out.Send(wire.TypeFolder, 0, packed.Bytes())); err != nil {
		return err
	}
	var list struct {
		Entries []struct {
			Path string
			Kind string
			Size int64
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(evil))
	for _, e := range list.Entries {
		if e.Kind != "file" {
			continue
		}
		err := out.SendMessage(wire.TypeOffer, wire.Offer{
			Place: wire.Place{Name: []byte(e.Path)},
			Size:  e.Size,
			Chunk: chunk,
			Sums:  sum[:],
		})
		if err := errors.Join(err, out.Send(wire.TypePiece, 0, []byte(evil))); err != nil {
			return err
		}
	}
	return nil
}
