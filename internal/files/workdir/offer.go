package workdir

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Offer describes a folder to a host.
type Offer struct {
	Copy    string    `json:"copy"`    // the name of the folder's copy
	Machine string    `json:"machine"` // the host name of the folder's machine
	Dir     Name      `json:"dir"`     // path of the folder on its machine
	Scanned time.Time `json:"scanned"`
	Proofs  []proof   `json:"proofs"`
	Entries []Entry   `json:"entries"`
}

func (t *Tree) offer(machine string) Offer {
	return Offer{
		Copy:    t.CopyName(machine),
		Machine: machine,
		Dir:     Name(t.Dir),
		Scanned: t.began,
		Proofs:  t.proofs,
		Entries: t.Entries,
	}
}

func writeOffer(w io.Writer, o Offer) error {
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	return errors.Join(json.NewEncoder(zip).Encode(o), zip.Close())
}

// maxOffer bounds an offer in bytes, uncompressed.
const maxOffer = 1 << 30

func readOffer(r io.Reader) (Offer, error) {
	var o Offer
	zip, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return o, err
	}
	zip.Multistream(false) // otherwise zip would wait for another frame
	text, err := io.ReadAll(io.LimitReader(zip, maxOffer))
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, err
	}
	if err := checkPath(o.Copy); err != nil || o.Copy[0] == '.' || strings.Contains(o.Copy, "/") {
		return o, fmt.Errorf("%q cannot be a copy's name", o.Copy)
	}
	return o, Check(o.Entries)
}
