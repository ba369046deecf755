package keep

import "github.com/gorun/gorun/internal/net/wire"

// Request asks for a host, and for a command or a file there.
type Request struct {
	Identity string     `json:"identity"`        // ssh.Identity of the route to the host
	Argv     wire.Texts `json:"argv,omitempty"`  // command line of a command
	Nonce    string     `json:"nonce,omitempty"` // nonce of an agent
	Name     string     `json:"name,omitempty"`  // name of a file, whose bytes follow as standard input
	Mode     uint32     `json:"mode,omitempty"`  // mode of the file
}

// Reached answers a request for a host to which there is a connection.
type Reached struct {
	HostKey []byte `json:"hostKey"`          // key that the host proved to own, in SSH's wire format
	Local   string `json:"local,omitempty"`  // local end of the TCP connection; "": another host carries it
	Remote  string `json:"remote,omitempty"` // remote end
	Build   string `json:"build,omitempty"`  // build id of the resident agent; "": none is resident
}

// End is the result of a command or of writing a file.
type End struct {
	Exited bool   `json:"exited"` // whether Code is the command's own
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
