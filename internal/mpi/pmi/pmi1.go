package pmi

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits announced to clients, equal to Hydra's. A client's line buffer has 1024 bytes.
const (
	maxName  = 256
	maxKey   = 64
	maxValue = 1024
	maxLine  = 4 << 10 // bytes of a request line
)

// pmi1Codec is PMI-1: a line of words for each message.
type pmi1Codec struct{}

func (pmi1Codec) step(c *client, line string) any {
	if c.spawn.within {
		switch whole, err := c.spawn.line(strings.TrimRight(line, "\r\n")); {
		case err != nil:
			return refuseSpawn()
		case whole != nil:
			return actSpawn{*whole}
		}
		return nil
	}
	r, err := parse(line)
	if err != nil {
		return refuse("unknown_command_result", err.Error())
	}
	if r.many {
		c.spawn.begin()
		return nil
	}
	switch r.command {
	case "init":
		return c.init(r)
	case "get_maxes":
		return reply("cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d", maxName, maxKey, maxValue)
	case "get_appnum":
		return reply("cmd=appnum appnum=%d", c.host.Programs[c.rank])
	case "get_my_kvsname":
		return reply("cmd=my_kvsname kvsname=%s", c.host.Name)
	case "get_universe_size":
		return reply("cmd=universe_size size=%d", cmp.Or(c.host.Universe, c.host.Size))
	case "put":
		return c.put(r)
	case "get":
		return c.get(r)
	case "barrier_in":
		return c.meet()
	case "finalize":
		c.inside = false
		return reply("cmd=finalize_ack")
	case "abort":
		return abort(r)
	case "publish_name", "unpublish_name", "lookup_name":
		return service(r)
	}
	return refuse(r.command+"_result", "unknown_command")
}

// read reads one line of at most maxLine bytes.
func (pmi1Codec) read(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("a line of more than %d bytes", maxLine)
	case errors.Is(err, io.EOF) && strings.TrimSpace(string(line)) != "":
		return "", io.ErrUnexpectedEOF
	}
	return string(line), err
}

func (pmi1Codec) frame(answer string) string { return strings.TrimSuffix(answer, "\n") + "\n" }
func (pmi1Codec) barrier() string            { return "cmd=barrier_out rc=0" }

func (pmi1Codec) published(problem string) string { return outcome("publish_result", problem) }
func (pmi1Codec) withdrawn(problem string) string { return outcome("unpublish_result", problem) }

func (pmi1Codec) found(port string) string {
	if port == "" {
		return outcome("lookup_result", "service_not_found")
	}
	return "cmd=lookup_result port=" + port + " info=ok rc=0 msg=success"
}

func outcome(command, problem string) string {
	if problem != "" {
		return "cmd=" + command + " info=error rc=1 msg=" + problem
	}
	return "cmd=" + command + " info=ok rc=0 msg=success"
}

func (pmi1Codec) attribute(string, bool) string { return "" } // PMI-1 has no attribute messages

// spawned answers a request whose ranks have been started.
func (pmi1Codec) spawned(ranks int) string {
	if ranks > maxCodes {
		return "cmd=spawn_result rc=0"
	}
	return "cmd=spawn_result rc=0 errcodes=" + strings.TrimSuffix(strings.Repeat("0,", ranks), ",")
}

func (pmi1Codec) notSpawned() string { return refuseSpawn().line }

// request is one line of a client.
type request struct {
	command string            // value of cmd= or mcmd=
	many    bool              // mcmd=: more lines follow, up to endcmd
	words   map[string]string // all other words
}

// parse splits a line into words. A value ends at the next blank, except that of
// "value=", which is the last word of its line and may contain blanks.
func parse(line string) (request, error) {
	r := request{words: map[string]string{}}
	for rest := strings.TrimRight(line, "\r\n"); rest != ""; {
		var word string
		if strings.HasPrefix(rest, "value=") {
			word = rest
			rest = ""
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		key, value, found := strings.Cut(word, "=")
		switch {
		case !found: // an extra blank, or the rest of a message
		case key == "cmd" || key == "mcmd":
			r.command = value
			r.many = key == "mcmd"
		default:
			r.words[key] = value
		}
	}
	if r.command == "" {
		return request{}, fmt.Errorf("a line without a command: %.80q", line)
	}
	return r, nil
}
