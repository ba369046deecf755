package pmi

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Spawn is a request for more ranks, which form a world of their own.
type Spawn struct {
	Programs []Program
	Given    map[string]string // values that the new ranks can get, such as their parents' addresses
}

// Program is the command that some of the new ranks run.
type Program struct {
	Argv  []string
	Ranks int
	Info  map[string]string // the keys of MPI_Info
}

// Host is where the program must run, as MPI_Info says; "": anywhere.
func (p *Program) Host() string { return cmp.Or(p.Info["host"], p.Info["hosts"], p.Info["add-host"]) }

// Ranks is the number of ranks of all programs.
func (s *Spawn) Ranks() (n int) {
	for _, p := range s.Programs {
		n += p.Ranks
	}
	return n
}

// Bounds of a request.
const (
	maxSpawnRanks = 1 << 20
	maxSpawnWords = 4 << 10   // words of all programs
	maxSpawnBytes = 256 << 10 // bytes of those words
)

// reader reads the lines of a spawn request. Each program of it begins with mcmd=spawn and ends
// with endcmd.
type reader struct {
	within  bool // whether the next line is between mcmd=spawn and endcmd
	request Spawn
	words   map[string]string // words of the current program
	bytes   int               // bytes of all lines
	err     error             // first error of the request
}

var errSpawn = errors.New("a spawn request that is too long or not complete")

func (r *reader) begin() {
	r.within = true
	r.words = map[string]string{}
}

// line adds a line. After the last one it returns the request or an error.
func (r *reader) line(line string) (whole *Spawn, err error) {
	if line != "endcmd" {
		key, value, _ := strings.Cut(line, "=")
		if r.bytes += len(line); r.bytes > maxSpawnBytes || len(r.words) >= maxSpawnWords {
			r.err = errSpawn
			return nil, nil
		}
		r.words[key] = value
		return nil, nil
	}
	r.within = false
	p, err := r.read()
	r.err = cmp.Or(r.err, err)
	if len(r.request.Programs) >= maxSpawnWords || r.request.Ranks()+p.Ranks > maxSpawnRanks {
		r.err = errSpawn
	}
	if r.err == nil {
		r.request.Programs = append(r.request.Programs, p)
	}
	if r.count("spawnssofar") < r.count("totspawns") {
		return nil, nil
	}
	request := r.request
	err = r.err
	*r = reader{}
	return &request, err
}

// read converts a program's words to a Program.
func (r *reader) read() (Program, error) {
	p := Program{Argv: []string{r.words["execname"]}, Ranks: r.count("nprocs"), Info: map[string]string{}}
	if p.Argv[0] == "" || p.Ranks < 1 || p.Ranks > maxSpawnRanks {
		return p, errSpawn
	}
	for i := 1; i <= r.count("argcnt"); i++ {
		word, found := r.words["arg"+strconv.Itoa(i)]
		if !found {
			return p, errSpawn
		}
		p.Argv = append(p.Argv, word)
	}
	for i := range r.count("info_num") {
		p.Info[r.words[fmt.Sprintf("info_key_%d", i)]] = r.words[fmt.Sprintf("info_val_%d", i)]
	}
	for i := range r.count("preput_num") {
		if r.request.Given == nil {
			r.request.Given = map[string]string{}
		}
		r.request.Given[r.words[fmt.Sprintf("preput_key_%d", i)]] = r.words[fmt.Sprintf("preput_val_%d", i)]
	}
	return p, nil
}

// count parses a number of items, which the number of words bounds.
func (r *reader) count(name string) int {
	n, _ := strconv.Atoi(r.words[name])
	if name == "nprocs" {
		return n
	}
	return max(0, min(n, maxSpawnWords))
}

// maxCodes is the number of codes that fit into a client's line.
const maxCodes = 256

func refuseSpawn() actReply { return reply("cmd=spawn_result rc=-1") }
