package pmi

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// client is the pure state machine of one rank's connection; serve.go performs its actions.
type client struct {
	host   *Host
	rank   int
	wire   wire              // codec, which the rank's first line selects
	inside bool              // whether the rank is between init and finalize, where it must not end
	puts   map[string]string // puts since the last barrier
	bytes  int               // size of puts in bytes
	spawn  reader            // reader of a spawn request's lines
}

type (
	actReply   struct{ line string }
	actBarrier struct { // wait for all ranks, then answer barrier_out
		number int
		puts   map[string]string
	}
	actAbort     struct{ code int }
	actSpawn     struct{ Spawn }
	actPublish   struct{ service, port string }
	actWithdraw  struct{ service string }
	actLookup    struct{ service string }
	actAttribute struct { // host attribute: answered when a rank of the host has put it, or at once
		key  string
		wait bool
	}
)

// wire is a version of the protocol: messages, and their answers.
type wire interface {
	// read returns the next message of a rank.
	read(*bufio.Reader) (string, error)
	// step handles one message and returns the action to perform.
	step(c *client, message string) any
	// frame makes an answer ready to be sent.
	frame(answer string) string
	// The answers to actions; a problem is "" or a word.
	barrier() string
	spawned(ranks int) string
	notSpawned() string
	published(problem string) string
	withdrawn(problem string) string
	found(port string) string
	attribute(value string, found bool) string
}

// unspeakable are the bytes that a line of PMI-1 cannot hold. Ranks that speak PMI-2 do not put
// them either.
const unspeakable = "\r\n\x00"

// maxPuts bounds the bytes that one rank may put between two barriers, like the store's fences.
const maxPuts = 48 << 10

func (c *client) init(r request) any {
	if r.words["pmi_version"] == "2" {
		c.wire = &pmi2Codec{}
		return reply("cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n")
	}
	if r.words["pmi_version"] != "1" {
		return reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1")
	}
	c.inside = true
	return reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
}

func (c *client) put(r request) any {
	if r.words["kvsname"] != c.host.Name {
		return refuse("put_result", "unknown_kvsname")
	}
	if problem := c.keep(r.words["key"], r.words["value"]); problem != "" {
		return refuse("put_result", problem)
	}
	return reply("cmd=put_result rc=0 msg=success")
}

// keep keeps a value until the next barrier. It returns a word about the problem, or "".
func (c *client) keep(key, value string) (problem string) {
	grown := c.bytes + len(key) + len(value) + 8
	switch {
	case !valueFits(key, value):
		return "key_or_value_too_long"
	case grown > maxPuts:
		return "too_much_between_two_barriers"
	}
	if c.puts == nil {
		c.puts = map[string]string{}
	}
	c.puts[key] = value
	c.bytes = grown
	c.host.published(key, value)
	return ""
}

// find returns what a rank has put: this one, or before the last barrier any.
func (c *client) find(key string) (value string, found bool) {
	if value, found = c.puts[key]; !found {
		value, found = c.host.get(key)
	}
	return value, found
}

// meet makes a barrier of what the rank has put.
func (c *client) meet() actBarrier {
	a := actBarrier{c.host.nextBarrier(c.rank), c.puts}
	c.puts = nil
	c.bytes = 0
	return a
}

func (c *client) get(r request) any {
	key := r.words["key"]
	value, found := c.find(key)
	if r.words["kvsname"] != c.host.Name || !found || value == "" { // newer clients cannot read an empty value
		return reply("cmd=get_result rc=-1 msg=key_%s_not_found value=unknown", word(key))
	}
	return reply("cmd=get_result rc=0 msg=success value=%s", value)
}

func abort(r request) any {
	code, err := strconv.Atoi(r.words["exitcode"])
	if err != nil {
		code = 1
	}
	return actAbort{code}
}

func service(r request) any {
	name := r.words["service"]
	if !serviceFits(name, r.words["port"]) {
		return reply("cmd=%s_result info=error rc=1 msg=bad_service_name", strings.TrimSuffix(r.command, "_name"))
	}
	switch r.command {
	case "publish_name":
		return actPublish{name, r.words["port"]}
	case "unpublish_name":
		return actWithdraw{name}
	}
	return actLookup{name}
}

// valueFits reports whether a line can say a key and its value. Keys of PMI-1 are words, and those
// of PMI-2 anything.
func valueFits(key, value string) bool {
	return key != "" && len(key) <= maxKey && len(value) <= maxValue && !strings.ContainsAny(key+value, unspeakable)
}

func serviceFits(name, port string) bool {
	return name != "" && len(name) <= maxName && len(port) <= maxValue && !strings.ContainsAny(name+port, unspeakable)
}

func reply(format string, args ...any) actReply { return actReply{fmt.Sprintf(format, args...)} }

func refuse(command, why string) actReply {
	return reply("cmd=%s rc=-1 msg=%s", word(command), word(why))
}

// word turns text into one word of at most 200 printable bytes.
func word(text string) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '\\' || r == '=' {
			return '_'
		}
		return r
	}, text)
	return text[:min(len(text), 200)]
}
