package pmi

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// client is the pure state machine of one rank's connection; serve.go performs its actions.
type client struct {
	host   *Host
	rank   int
	inside bool              // between init and finalize, where a rank must not end
	puts   map[string]string // since the last barrier
	bytes  int               // of puts
	spawn  reader            // of the lines of a spawn request
}

type (
	actReply   struct{ line string }
	actBarrier struct { // wait for all ranks, then answer barrier_out
		number int
		puts   map[string]string
	}
	actAbort    struct{ code int }
	actSpawn    struct{ Spawn }
	actPublish  struct{ service, port string }
	actWithdraw struct{ service string }
	actLookup   struct{ service string }
)

// maxPuts bounds the bytes that one rank may put between two barriers, like the store's fences.
const maxPuts = 48 << 10

// step handles one line and returns the action to perform.
func (c *client) step(line string) any {
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
		a := actBarrier{c.host.nextBarrier(c.rank), c.puts}
		c.puts, c.bytes = nil, 0
		return a
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

func (c *client) init(r request) any {
	if r.words["pmi_version"] != "1" {
		return reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1")
	}
	c.inside = true
	return reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
}

func (c *client) put(r request) any {
	key, value := r.words["key"], r.words["value"]
	grown := c.bytes + len(key) + len(value) + 8
	switch {
	case r.words["kvsname"] != c.host.Name:
		return refuse("put_result", "unknown_kvsname")
	case key == "" || len(key) > maxKey || len(value) > maxValue || strings.ContainsAny(value, "\r\x00"):
		return refuse("put_result", "key_or_value_too_long")
	case grown > maxPuts:
		return refuse("put_result", "too_much_between_two_barriers")
	}
	if c.puts == nil {
		c.puts = map[string]string{}
	}
	c.puts[key], c.bytes = value, grown
	c.host.published(key, value)
	return reply("cmd=put_result rc=0 msg=success")
}

func (c *client) get(r request) any {
	key := r.words["key"]
	value, found := c.puts[key]
	if !found {
		value, found = c.host.get(key)
	}
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
	if name == "" || len(name) > maxName || len(r.words["port"]) > maxValue {
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
