package pmi

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// pmi2Codec is PMI-2: a message is its length in six characters, and pairs KEY=VALUE; of which the
// first is its command. A semicolon in a value is doubled.
type pmi2Codec struct {
	thread string // thread of the rank that asks, which the answer repeats
	begun  bool   // whether the rank has sent fullinit
}

// maxMessage bounds a message; Slurm's client sends at most as much.
const maxMessage = 64 << 10

// lengthSize is the number of characters of a length.
const lengthSize = 6

func (*pmi2Codec) read(r *bufio.Reader) (string, error) {
	var size [lengthSize]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", err // EOF only before a message
	}
	n, err := strconv.ParseUint(strings.TrimRight(string(size[:]), " \x00"), 10, 32)
	if err != nil || n > maxMessage {
		return "", fmt.Errorf("%q came where the length of a message was due, at most %d", size, maxMessage)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(r, message); err != nil {
		return "", fmt.Errorf("read a message of %d bytes: %w", n, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return string(message), nil
}

func (*pmi2Codec) frame(answer string) string {
	return fmt.Sprintf("%-*d%s", lengthSize, len(answer), answer)
}

// parsePairs splits a message into its command and words. The first of several equal keys counts.
func parsePairs(message string) (request, error) {
	r := request{words: map[string]string{}}
	for first := true; message != ""; first = false {
		key, rest, found := strings.Cut(message, "=")
		if !found || key == "" || len(key) > maxKey {
			return request{}, fmt.Errorf("%.80q came where KEY=VALUE; was due", message)
		}
		var value strings.Builder
		for {
			at := strings.IndexByte(rest, ';')
			if at < 0 {
				return request{}, fmt.Errorf("%.80q does not end with a semicolon", key+"="+rest)
			}
			value.WriteString(rest[:at])
			if rest = rest[at+1:]; !strings.HasPrefix(rest, ";") {
				break
			}
			value.WriteByte(';')
			rest = rest[1:]
		}
		message = rest
		if first {
			if key != "cmd" {
				return request{}, fmt.Errorf("%.80q came where cmd= was due", key)
			}
			r.command = value.String()
		} else if _, twice := r.words[key]; !twice {
			r.words[key] = value.String()
		}
	}
	if r.command == "" {
		return request{}, errors.New("a message without a command")
	}
	return r, nil
}

// rankIn returns the rank that a message says to come from.
func rankIn(message string) (int, error) {
	r, err := parsePairs(message)
	if err != nil {
		return 0, err
	}
	rank, err := strconv.Atoi(cmp.Or(r.words["pmirank"], r.words["srcid"]))
	if r.command != "fullinit" || err != nil {
		return 0, fmt.Errorf("%.80q came where cmd=fullinit with a rank was due", message)
	}
	return rank, nil
}

// say makes the answer to a command: keys and values in turn.
func (p *pmi2Codec) say(command, problem string, words ...string) string {
	var b strings.Builder
	pair := func(key, value string) { b.WriteString(key + "=" + strings.ReplaceAll(value, ";", ";;") + ";") }
	pair("cmd", command+"-response")
	if p.thread != "" {
		pair("thrid", p.thread)
	}
	if problem != "" {
		pair("rc", "-1")
		pair("errmsg", problem)
		return b.String()
	}
	pair("rc", "0")
	for i := 0; i+1 < len(words); i += 2 {
		pair(words[i], words[i+1])
	}
	return b.String()
}

func (p *pmi2Codec) step(c *client, message string) any {
	p.thread = ""
	r, err := parsePairs(message)
	if err != nil {
		return actReply{p.say("unknown", word(err.Error()))}
	}
	p.thread = r.words["thrid"]
	if len(p.thread) > maxKey {
		p.thread = ""
	}
	say := func(problem string, words ...string) any { return actReply{p.say(word(r.command), problem, words...)} }
	if r.command != "fullinit" && !p.begun {
		return say("fullinit_must_come_first")
	}
	switch r.command {
	case "fullinit":
		p.begun = true
		c.inside = true
		return say("", "pmi-version", "2", "pmi-subversion", "0", "rank", strconv.Itoa(c.rank), "size",
			strconv.Itoa(c.host.Size),
			"appnum", strconv.Itoa(c.host.Programs[c.rank]), "debugged", "FALSE", "pmiverbose", "FALSE")
	case "finalize":
		c.inside = false
		return say("")
	case "abort":
		return abort(r)
	case "job-getid":
		return say("", "jobid", c.host.Name)
	case "kvs-put":
		return say(c.keep(r.words["key"], r.words["value"]))
	case "kvs-get":
		if job := r.words["jobid"]; job != "" && job != c.host.Name {
			return say("unknown_job")
		}
		return actReply{p.valueOf("kvs-get", r.words["key"], c.find)}
	case "kvs-fence":
		return c.meet()
	case "info-getjobattr":
		return actReply{p.valueOf("info-getjobattr", r.words["key"], c.jobAttribute)}
	case "info-putnodeattr":
		return say(c.host.attributes.put(r.words["key"], r.words["value"]))
	case "info-getnodeattr":
		return actAttribute{r.words["key"], strings.EqualFold(r.words["wait"], "true")}
	case "spawn": // a spawn repeats keys, and a request holds one value of each
		return actReply{p.notSpawned()}
	case "name-publish", "name-unpublish", "name-lookup":
		return p.service(r)
	}
	return say("gorun_does_not_serve_this_over_PMI-2")
}

// jobAttribute returns an attribute of the job that no rank has put.
func (c *client) jobAttribute(key string) (string, bool) {
	if key == "universeSize" {
		return strconv.Itoa(cmp.Or(c.host.Universe, c.host.Size)), true
	}
	return c.host.get(key)
}

func (p *pmi2Codec) service(r request) any {
	name := r.words["name"]
	switch {
	case !serviceFits(name, r.words["port"]):
		return actReply{p.say(r.command, "bad_service_name")}
	case r.command == "name-publish":
		return actPublish{name, r.words["port"]}
	case r.command == "name-unpublish":
		return actWithdraw{name}
	}
	return actLookup{name}
}

// valueOf answers with the value of a key, if there is one.
func (p *pmi2Codec) valueOf(command, key string, find func(string) (string, bool)) string {
	value, found := find(key)
	if !found {
		return p.say(command, "", "found", "FALSE")
	}
	return p.say(command, "", "found", "TRUE", "value", value)
}

func (p *pmi2Codec) barrier() string                 { return p.say("kvs-fence", "") }
func (p *pmi2Codec) published(problem string) string { return p.say("name-publish", problem) }
func (p *pmi2Codec) withdrawn(problem string) string { return p.say("name-unpublish", problem) }
func (p *pmi2Codec) spawned(int) string              { return p.notSpawned() }
func (p *pmi2Codec) notSpawned() string              { return p.say("spawn", "gorun_spawns_no_ranks_over_PMI-2") }

// found answers a lookup. MPICH's client reads the port, Slurm's the value.
func (p *pmi2Codec) found(port string) string {
	if port == "" {
		return p.say("name-lookup", "service_not_found")
	}
	return p.say("name-lookup", "", "port", port, "value", port)
}

func (p *pmi2Codec) attribute(value string, found bool) string {
	return p.valueOf("info-getnodeattr", "", func(string) (string, bool) { return value, found })
}

// attributes are values that the ranks of a host share.
type attributes struct {
	mu      sync.Mutex
	values  map[string]string
	bytes   int
	changed chan struct{} // closed at the next put; nil: no waiters
}

// maxAttributes bounds the bytes of a host's attributes.
const maxAttributes = 1 << 20

// put sets an attribute. It returns a word about the problem, or "".
func (a *attributes) put(key, value string) (problem string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	grown := a.bytes + len(key) + len(value) - len(a.values[key])
	if key == "" || len(key) > maxKey || len(value) > maxValue || grown > maxAttributes {
		return "key_or_value_too_long"
	}
	if a.values == nil {
		a.values = map[string]string{}
	}
	a.values[key] = value
	a.bytes = grown
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
	return ""
}

// get returns the value of an attribute. With wait it waits until a rank has put it.
func (a *attributes) get(ctx context.Context, key string, wait bool) (value string, found bool, err error) {
	for {
		a.mu.Lock()
		value, found = a.values[key]
		if found || !wait {
			a.mu.Unlock()
			return value, found, nil
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false, ctx.Err()
		}
	}
}
