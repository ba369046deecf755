package hostfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// parse is [Parse] of a hostfile that stands alone.
func parse(text string) ([]Host, error) {
	list, err := Parse("hosts.txt", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return list.Hosts()
}

// parseList is [ParseList] of a list that stands alone.
func parseList(text string) ([]Host, error) {
	list, err := ParseList(text)
	if err != nil {
		return nil, err
	}
	return list.Hosts()
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want []Host
	}{
		"one slot by default": {"a\n", []Host{{Name: "a", Slots: 1}}},
		"no newline at end":   {"a:3", []Host{{Name: "a", Slots: 3}}},
		"count after colon":   {"a:2\nb:65535\n", []Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 65535}}},
		"slots key":           {"a slots=2\n", []Host{{Name: "a", Slots: 2}}},
		"all keys": {"u@a slots=2 max_slots=4 port=2222\n",
			[]Host{{Name: "a", User: "u", Slots: 2, MaxSlots: 4, Port: 2222}}},
		"user key":          {"a user=me.2_x-y\n", []Host{{Name: "a", User: "me.2_x-y", Slots: 1}}},
		"keys in any order": {"a max_slots=4 slots=4\n", []Host{{Name: "a", Slots: 4, MaxSlots: 4}}},
		"tabs and blanks":   {"\t a \t slots=2\t\n", []Host{{Name: "a", Slots: 2}}},
		"carriage returns":  {"a:2\r\n\r\nb\r\n", []Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}}},
		"byte order mark":   {"\ufeffa:2\n", []Host{{Name: "a", Slots: 2}}},
		"comments": {"# all\n\n  # more\na:2 # two\nb#c\n",
			[]Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}}},
		"names as written": {"N1.Example.com:1\nn_1\n",
			[]Host{{Name: "N1.Example.com", Slots: 1}, {Name: "n_1", Slots: 1}}},
		"domains kept apart": {"x.1.foo\nx.2.foo\n", []Host{{Name: "x.1.foo", Slots: 1}, {Name: "x.2.foo", Slots: 1}}},
		"IPv4":               {"10.0.0.1:2\n", []Host{{Name: "10.0.0.1", Slots: 2}}},
		"IPv6 in brackets": {"[fd00::1]:2\nu@[::1] slots=3\n",
			[]Host{{Name: "fd00::1", Slots: 2}, {Name: "::1", User: "u", Slots: 3}}},
		"bare IPv6": {"fd00::1\nfd00::a:b slots=2\n",
			[]Host{{Name: "fd00::1", Slots: 1}, {Name: "fd00::a:b", Slots: 2}}},
		"full bare IPv6":    {"1:2:3:4:5:6:7:8\n", []Host{{Name: "1:2:3:4:5:6:7:8", Slots: 1}}},
		"settled by slots=": {"fd00::1:2 slots=4\n", []Host{{Name: "fd00::1:2", Slots: 4}}},
		"repeated hosts":    {"a:2\nb\na slots=3\n", []Host{{Name: "a", Slots: 5}, {Name: "b", Slots: 1}}},
		"user and port tell apart": {"a\nu@a\na port=22\na\n", []Host{
			{Name: "a", Slots: 2}, {Name: "a", User: "u", Slots: 1}, {Name: "a", Port: 22, Slots: 1}}},
		"smallest limit counts": {"a max_slots=9\na\na max_slots=5\n", []Host{{Name: "a", Slots: 3, MaxSlots: 5}}},
		"leading zeros":         {"a:010\n", []Host{{Name: "a", Slots: 10}}},
		"synonyms": {"a cpu=2 max-slots=3 username=u\nb count=4 slots_max=5\n",
			[]Host{{Name: "a", User: "u", Slots: 2, MaxSlots: 3}, {Name: "b", Slots: 4, MaxSlots: 5}}},
		"blanks around =": {"a slots = 2 port= 22 user =me\n",
			[]Host{{Name: "a", User: "me", Slots: 2, Port: 22}}},
		"quotes": {"\"a\" slots=\"2\" \"user=me\" # \"\n", []Host{{Name: "a", User: "me", Slots: 2}}},
		"other comments": {"a:2 // two\n/* b\nc */ d/* e */slots=2\n// f\n/**/g/***/\n",
			[]Host{{Name: "a", Slots: 2}, {Name: "d", Slots: 2}, {Name: "g", Slots: 1}}},
		"gpus are slots": {"a gpus=4\nb slots=2 gpus=4\nc gpus=0\n",
			[]Host{{Name: "a", Slots: 4, GPUs: 4}, {Name: "b", Slots: 2, GPUs: 4}, {Name: "c", Slots: 1}}},
		"cores": {"a:*\nb:auto\nc slots=auto max_slots=4\na slots=*\n",
			[]Host{{Name: "a", Slots: 1, Auto: true}, {Name: "b", Slots: 1, Auto: true},
				{Name: "c", Slots: 1, MaxSlots: 4, Auto: true}}},
		"ranges": {"u@f[08-10,2].x:2 port=22\n",
			[]Host{{Name: "f08.x", User: "u", Slots: 2, Port: 22}, {Name: "f09.x", User: "u", Slots: 2, Port: 22},
				{Name: "f10.x", User: "u", Slots: 2, Port: 22}, {Name: "f2.x", User: "u", Slots: 2, Port: 22}}},
		"two ranges": {"r[1-2]n[1-2]\n", []Host{{Name: "r1n1", Slots: 1}, {Name: "r1n2", Slots: 1},
			{Name: "r2n1", Slots: 1}, {Name: "r2n2", Slots: 1}}},
		"ranges of IPv4": {"10.0.0.[1-2]:3\n",
			[]Host{{Name: "10.0.0.1", Slots: 3}, {Name: "10.0.0.2", Slots: 3}}},
		"ranges first": {"[1-2]n\n", []Host{{Name: "1n", Slots: 1}, {Name: "2n", Slots: 1}}},
		"excludes": {"f[1-4]:2\n^f[2-3]\n^nobody\n",
			[]Host{{Name: "f1", Slots: 2}, {Name: "f4", Slots: 2}}},
		"longest label": {strings.Repeat("x", 63) + "\n", []Host{{Name: strings.Repeat("x", 63), Slots: 1}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tt.text)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("Parse(%q) = %+v, %v\nwant %+v", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"a\nb\nn1:   \n", `hosts.txt:3:1: "n1:": the slots after the colon must be a whole number from 1 to 65535`},
		{"a\n\nnode1 slots=two\n", `hosts.txt:3:7: "slots=two": slots must be a whole number from 1 to 65535`},
		{"\ufeffa  slots=0\n", `hosts.txt:1:4: "slots=0": slots must be`},
		{"a slots=-1\n", `"slots=-1": slots must be`},
		{"a slots=+1\n", `"slots=+1": slots must be`},
		{"a slots=65536\n", `"slots=65536": slots must be`},
		{"a slots=99999999999999999999\n", `slots must be`},
		{"a slots=\n", `"slots=": slots must be`},
		{"a max_slots=x\n", `max_slots must be a whole number`},
		{"a port=65536\n", `port must be a whole number from 1 to 65535`},
		{"a slots=1 slots=1\n", `hosts.txt:1:11: "slots=1": slots is given twice on this line`},
		{"a:2 slots=3\n", `slots is given twice`},
		{"a port=1 port=2\n", `port is given twice`},
		{"u@a user=v\n", `user is given twice`},
		{"a user=-oProxyCommand\n", `"user=-oProxyCommand": a user name is made of`},
		{"a user=\n", `a user name is made of`},
		{"-x@a\n", `a user name is made of`},
		{"@a\n", `a user name is made of`},
		{"u!@a\n", `a user name is made of`},
		{"v@u@a\n", `a user name is made of`},
		{"u@\n", `the host name is missing`},
		{":2\n", `the host name is missing`},
		{"a 4\n", `hosts.txt:1:3: "4": expected key=value; write slots=4`},
		{"a four\n", `"four": expected key=value, with one of the keys slots, max_slots, gpus, port and user`},
		{"a =4\n", `hosts.txt:1:3: "=4"`},
		{"a slots =\n", `hosts.txt:1:3: "slots =": slots must be`},
		{"a slots = two\n", `hosts.txt:1:3: "slots = two": slots must be`},
		{"a slots=1 cpu=2\n", `"cpu=2": slots is given twice`},
		{"a:auto slots=2\n", `slots is given twice`},
		{"a:auto\na:2\n", `hosts.txt:2:1: "a:2": this host has a number of slots in one place and auto in another`},
		{"a gpus=-1\n", `gpus must be a whole number`},
		{"\"a\n", `hosts.txt:1:1: "\"a": the quote is not closed`},
		{"a\n  /* b\n c\n", `hosts.txt:2:3: "/*": this comment has no end`},
		{"f[1-2\n", `hosts.txt:1:1: "f[1-2": the bracket is not closed`},
		{"f1-2]\n", `a ] without its [`},
		{"f[2-1]\n", `the range 2-1 runs backwards; write 1-2`},
		{"f[1-x]\n", `"1-x" is no range of numbers; write f[01-16,20]`},
		{"f[]\n", `"" is no range of numbers`},
		{"f[1-70000]\n", `stands for more than 65536 hosts`},
		{"f[1-300]g[1-300]\n", `stands for more than 65536 hosts`},
		{"f[1-2]-\n", `it stands for "f1-": not a host name`},
		{"[1-2]\n", `it stands for "1": a name that ends in a number`},
		{"^a:2\n", `an excluded host has no slots; write ^a`},
		{"^a slots=2\n", `hosts.txt:1:4: "slots=2": nothing may follow "^a" on its line`},
		{"^\n", `the host name is missing`},
		{"a\n^a\n", `hosts.txt: every host in it is excluded`},
		{"^a\n", `hosts.txt:1:1: "^a": it chooses from an allocation or a hostfile, and there is none`},
		{"a\n+n0\n", `hosts.txt:2:1: "+n0": it chooses from an allocation`},
		{"+x\n", `write +n0 for the first host`},
		{"+n\n", `write +n0 for the first host`},
		{"+e:0\n", `write +n0 for the first host`},
		{"\xff\xfea\x00\n", `hosts.txt: written in UTF-16; save it as UTF-8`},
		{"a max_slots=2 slots=4\n", `this host has 4 slots, more than its max_slots of 2`},
		{"a:2 max_slots=2\na\n", `hosts.txt:2:1: "a": this host has 3 slots, more than its max_slots of 2`},
		{"a:65535\na\n", `hosts.txt:2:1: "a": the slots of this host add up to more than 65535`},
		{"-oProxyCommand=x\n", `not a host name`},
		{"a-\n", `not a host name`},
		{"a..b\n", `not a host name`},
		{"a.\n", `not a host name`},
		{"a;b\n", `not a host name`},
		{"a\vb\n", `not a host name`},
		{"h\u00f6st\n", `not a host name`},
		{"a\x00\n", `"a\x00": not a host name`},
		{strings.Repeat("x", 64) + "\n", `...": not a host name`},
		{strings.Repeat("x.", 130) + "x\n", `at most 253 characters`},
		{"4\n", `is an IPv4 address`},
		{"10.0.0.256\n", `is an IPv4 address`},
		{"10.0.1\n", `is an IPv4 address`},
		{"01.2.3.4\n", `is an IPv4 address`},
		{"[a]:2\n", `only an IPv6 address`},
		{"[10.0.0.1]\n", `only an IPv6 address`},
		{"[fe80::1%eth0]\n", `only an IPv6 address`},
		{"[fd00::1\n", `the bracket is not closed`},
		{"[fd00::1]2\n", `after the bracket only`},
		{"[fd00::1]:\n", `the slots after the colon`},
		{"a:2:3\n", `not an IPv6 address`},
		{"1:2:3:4:5:6:7:8:2\n", `not an IPv6 address`},
		{"fd00::1:2\n",
			`could mean two things; write [fd00::1]:2 for an address and its slots, or [fd00::1:2] for the address alone`},
		{"", `hosts.txt: no host in it`},
		{"# nothing\n", `hosts.txt: no host in it`},
		{strings.Repeat("\n", MaxBytes+1), `hosts.txt: longer than 4 MiB`},
	}
	for _, tt := range tests {
		hosts, err := parse(tt.text)
		var perr *ParseError
		if !errors.As(err, &perr) || !strings.Contains(err.Error(), tt.want) || hosts != nil {
			t.Errorf("Parse(%.60q) = %v, %v\nwant an error with %s", tt.text, hosts, err, tt.want)
		}
	}
}

func TestParseTooManyHosts(t *testing.T) {
	var b strings.Builder
	for i := range MaxHosts + 1 {
		fmt.Fprintf(&b, "h%x\n", i)
	}
	_, err := parse(b.String())
	if err == nil || !strings.Contains(err.Error(), ":100001:1:") ||
		!strings.Contains(err.Error(), "more than 100000 hosts") {
		t.Errorf("err = %v", err)
	}
}

func TestParseReportsReadErrors(t *testing.T) {
	_, err := Parse("hosts.txt", iotest.ErrReader(io.ErrUnexpectedEOF))
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "read hosts.txt: ") {
		t.Errorf("err = %v", err)
	}
}

func TestParseList(t *testing.T) {
	got, err := parseList("a:2, b ,user@c:4,[fd00::1]:2,a")
	want := []Host{
		{Name: "a", Slots: 3}, {Name: "b", Slots: 1},
		{Name: "c", User: "user", Slots: 4}, {Name: "fd00::1", Slots: 2},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("ParseList = %+v, %v\nwant %+v", got, err, want)
	}
}

func TestParseListErrors(t *testing.T) {
	tests := []struct{ list, want string }{
		{"", `-H:1: a host name is missing; write hosts as in a:2,b`},
		{"a,,b", `-H:3: a host name is missing`},
		{"a, ", `-H:4: a host name is missing`},
		{"a,b:x", `-H:3: "b:x": the slots after the colon must be a whole number from 1 to 65535`},
		{"a:0", `-H:1: "a:0": the slots after the colon`},
		{"a, b c", `-H:4: "b c": not a host name`},
		{"a slots=2", `not a host name`},
		{"a:40000,b,a:40000", `-H:11: "a:40000": the slots of this host add up to more than 65535`},
		{strings.Repeat("a,", MaxBytes), `-H: longer than 4 MiB`},
	}
	for _, tt := range tests {
		hosts, err := parseList(tt.list)
		var perr *ParseError
		if !errors.As(err, &perr) || !strings.Contains(err.Error(), tt.want) || hosts != nil {
			t.Errorf("ParseList(%.60q) = %v, %v\nwant an error with %s", tt.list, hosts, err, tt.want)
		}
	}
}

func ExampleParse() {
	list, err := Parse("hosts.txt", strings.NewReader(`
		node1 slots=4            # two words
		ada@node2:2              // or one
		[fd00::7]:2 port=2222
		gpu[08-10] gpus=2
		^gpu09
	`))
	if err != nil {
		fmt.Println(err)
	}
	hosts, err := list.Hosts()
	fmt.Print(Format(hosts), err, "\n")

	_, err = Parse("f", strings.NewReader("node1 slots=two"))
	fmt.Println(err)
	// Output:
	// node1 slots=4
	// ada@node2 slots=2
	// [fd00::7] slots=2 port=2222
	// gpu08 slots=2 gpus=2
	// gpu10 slots=2 gpus=2
	// <nil>
	// f:1:7: "slots=two": slots must be a whole number from 1 to 65535, or auto for one per core
}
