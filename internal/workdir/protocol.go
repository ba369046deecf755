package workdir

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Offer is what a host is told of a folder.
type Offer struct {
	Copy    string    `json:"copy"`    // the name of the folder's copy
	Machine string    `json:"machine"` // whose folder it is
	Dir     Name      `json:"dir"`     // its path there
	Scanned time.Time `json:"scanned"`
	Proofs  []proof   `json:"proofs"`
	Entries []Entry   `json:"entries"`
}

// reply is a line of the host's. One field is set.
type reply struct {
	Build   string `json:"build,omitempty"`
	Waiting bool   `json:"waiting,omitempty"` // another launch changes the copy
	Shared  bool   `json:"shared,omitempty"`  // the host sees the folder itself
	Want    *list  `json:"want,omitempty"`
	Done    *done  `json:"done,omitempty"`
	Error   string `json:"error,omitempty"`
}

// list is what the host asks for.
type list struct {
	Files []want `json:"files"`
}

// done is how a copy ended up.
type done struct {
	Dir     Name `json:"dir"` // absolute
	Removed int  `json:"removed"`
}

// offer is the folder as a host is told of it.
func (t *Tree) offer(machine string) Offer {
	return Offer{Copy: t.CopyName(machine), Machine: machine, Dir: Name(t.Dir), Scanned: t.began, Proofs: t.proofs, Entries: t.Entries}
}

// writeOffer writes the launcher's first member.
func writeOffer(w io.Writer, o Offer) error {
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	return errors.Join(json.NewEncoder(zip).Encode(o), zip.Close())
}

// maxOffer bounds what a host reads of an offer.
const maxOffer = 1 << 30

// readOffer reads an offer that is fit to be followed.
func readOffer(r io.Reader) (Offer, error) {
	var o Offer
	text, err := io.ReadAll(io.LimitReader(r, maxOffer))
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, err
	}
	if err := checkPath(o.Copy); err != nil || o.Copy[0] == '.' || strings.Contains(o.Copy, "/") {
		return o, fmt.Errorf("%q cannot be a copy's name", o.Copy)
	}
	return o, check(o.Entries)
}
