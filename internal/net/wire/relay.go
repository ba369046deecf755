package wire

import (
	"net/netip"
	"time"
)

// Offer is a file that hosts pass on among themselves. It has chunks of Chunk bytes, of which the
// last may be shorter. Their SHA-256 sums identify them.
type Offer struct {
	Place
	Size  int64
	Chunk int64
	Sums  []byte // checksums of all chunks, concatenated
	// Group, Member and Key are what the host's connections with others prove: the launch, the
	// host's number in it, and a secret of 32 bytes.
	Group  string
	Member int
	Key    []byte
	Addrs  []netip.Addr // addresses of this host for others, best first; none: it passes nothing on
	// Ask: the launcher only asks whether the host has what it would make of the file, and sends
	// none.
	Ask bool `json:",omitempty"`
}

// Place is the destination of a file on a host.
type Place struct {
	// Dir is the folder, absolute or below the home directory. It is made where it is missing.
	Dir   []byte `json:",omitempty"`
	Name  []byte
	Mode  uint32        `json:",omitempty"` // permissions
	Mtime time.Duration `json:",omitempty"` // time since 1970
	// Use is the purpose of the file.
	Use Use `json:",omitempty"`
}

// Use is the purpose of a file on the host that receives it.
type Use string

// The uses.
const (
	UseKeep Use = "" // file that stays in Dir
	// packed Python environment, which the host unpacks in its cache; Name is its key
	UseEnvironment Use = "environment"
)

// MaxPath is the most bytes of a path on a host, as Linux has it (PATH_MAX).
const MaxPath = 4096

// Offered is the host's answer to an Offer.
type Offered struct {
	Have  int64            // verified bytes of the file
	Addrs []netip.AddrPort `json:",omitempty"` // addresses on which the host listens
	Cert  []byte           `json:",omitempty"` // SHA-256 of the host's certificate
	// Path answers Ask: where the host has it; none if it does not.
	Path []byte `json:",omitempty"`
}

// Peer is another host of a relay.
type Peer struct {
	Member int
	// where it listens, for a host that may fetch from it; none: it may fetch from the host
	Addrs []netip.AddrPort `json:",omitempty"`
	Cert  []byte
}

// Peers tells a host of others. It may come again.
type Peers struct {
	Peers []Peer
	// Whole is set with the hosts to fetch from: there are no others.
	Whole bool `json:",omitempty"`
}

// Passed is a host's progress.
type Passed struct {
	Have int64
	Feed bool `json:",omitempty"` // no peer is reachable: the launcher sends the file from Have on
	// From is the member that the host fetches from, -1 the launcher.
	From int
	// Blamed is a member that sent something else than the file, and Why how fetching from it
	// ended.
	Blamed *Blamed `json:",omitempty"`
	// Done: the host has the file. Path is where it, or what was made of it, is.
	Done bool   `json:",omitempty"`
	Path []byte `json:",omitempty"`
}

// Blamed is a link that failed.
type Blamed struct {
	Member int
	Why    string
	Lied   bool `json:",omitempty"` // whether the peer sent other bytes than the file's
}

// Fetch asks for the files of a host that match patterns, and for what is in folders that do.
type Fetch struct {
	From []FetchFrom
	// Here is a file in the launcher's folder. A folder of the host that has it is the same one, of
	// which nothing is sent. nil: there is none.
	Here *Mark `json:",omitempty"`
}

// Mark is a file that only its user can read, and what it says.
type Mark struct {
	Name Text
	Says Text
}

// FetchFrom is a folder, absolute or below the home directory, and patterns of paths in it, as of
// path.Match. The pattern "." matches all that is in the folder.
type FetchFrom struct {
	Dir      Text
	Patterns Texts
}
