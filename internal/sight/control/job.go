package control

import (
	"crypto/rand"
	"regexp"
	"time"
)

// Version is the version of the socket's API. Its number changes only if a client of an earlier one
// would misread an answer.
const Version = 1

// States of a job.
const (
	Starting = "starting" // hosts are being connected
	Running  = "running"  // ranks run
	Keeping  = "keeping"  // no ranks: connections to hosts are kept for other jobs
	Ended    = "ended"
	Unknown  = "unknown" // a job of another machine, or one that ended without a trace
)

// Job describes a job. Times are those of the machine that runs gorun.
type Job struct {
	Version  int       `json:"version"`
	ID       string    `json:"id"`
	Name     string    `json:"name,omitempty"`
	State    string    `json:"state"`
	PID      int       `json:"pid"`     // process ID of gorun
	Machine  string    `json:"machine"` // name of the machine that runs gorun
	Program  []string  `json:"program"` // program and arguments, the first of several programs
	Dir      string    `json:"dir"`
	Size     int       `json:"size"`                // ranks
	Spawned  int       `json:"spawned,omitempty"`   // ranks that MPI programs have spawned
	Last     int       `json:"last_rank,omitempty"` // highest number of a spawned rank
	Hosts    []Host    `json:"hosts"`
	Elastic  bool      `json:"elastic,omitempty"`
	Detached bool      `json:"detached,omitempty"`
	Began    time.Time `json:"began"`
	Running  time.Time `json:"running,omitzero"` // time of the ranks' release
	Exits    []Exit    `json:"exits,omitempty"`  // exits of ranks, in order
	Ended    time.Time `json:"ended,omitzero"`
	Code     *int      `json:"code,omitempty"`  // exit code of gorun
	Cause    string    `json:"cause,omitempty"` // cause of a code other than 0
	Log      string    `json:"log,omitempty"`   // folder with the output of a detached job
}

// Host is a host of a job, and its ranks.
type Host struct {
	Host  string `json:"host"`
	Ranks []int  `json:"ranks"`
}

// Exit is the end of a rank.
type Exit struct {
	Rank    int     `json:"rank"`
	Host    string  `json:"host"`
	Code    int     `json:"code"`
	Signal  int     `json:"signal,omitempty"`
	Stopped bool    `json:"stopped,omitempty"` // whether gorun ended the rank
	Seconds float64 `json:"seconds"`           // seconds since the ranks' release
}

// newID returns a name for a job, such as g7k2. About 600,000 are possible, so the caller checks
// that it is free.
func newID() string {
	const letters = "abcdefghjkmnpqrstuvwxyz"
	const digits = "23456789"
	var raw [4]byte
	rand.Read(raw[:])
	pick := func(from string, b byte) byte { return from[int(b)%len(from)] }
	return string([]byte{pick(letters, raw[0]), pick(digits, raw[1]), pick(letters+digits, raw[2]),
		pick(letters+digits, raw[3])})
}

// isID reports whether a job may have this id.
func isID(name string) bool { return regexp.MustCompile(`^[a-z][2-9][a-z2-9]{2}$`).MatchString(name) }

// ValidName reports whether a job may have this name: at most 64 letters, digits, dots, dashes and
// underscores, with at least one letter or digit.
func ValidName(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(name)
}
