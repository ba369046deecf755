package keep

import "github.com/gorun/gorun/internal/net/wire"

// Request asks for a host, and for a command or a file there.
type Request struct {
	Identity string     `json:"identity"`        // ssh.Identity of the way to the host
	Argv     wire.Texts `json:"argv,omitempty"`  // of a command
	Nonce    string     `json:"nonce,omitempty"` // of an agent
	Name     string     `json:"name,omitempty"`  // of a file, whose bytes follow as standard input
	Mode     uint32     `json:"mode,omitempty"`  // of the file
}

// Reached answers a request for a host to which there is a connection.
type Reached struct {
	HostKey []byte `json:"hostKey"`          // as the host proved to own it, in SSH's wire format
	Local   string `json:"local,omitempty"`  // ends of the TCP connection; "": another host carries it
	Remote  string `json:"remote,omitempty"` //
	Build   string `json:"build,omitempty"`  // of the resident agent; "": there is none
}

// End is how a command or the writing of a file ended.
type End struct {
	Exited bool   `json:"exited"` // Code is the command's own
	Code   int    `json:"code"`
	Error  string `json:"error,omitempty"` // "": it succeeded
}

// Paths of the requests. Run, Put and Agent become streams of package frames.
const (
	PathReach = "reach"
	PathRun   = "run"
	PathPut   = "put"
	PathAgent = "agent"
)
