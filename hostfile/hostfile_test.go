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

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want []Host
	}{
		"one slot by default": {"a\n", []Host{{Name: "a", Slots: 1}}},
		"no newline at end":   {"a:3", []Host{{Name: "a", Slots: 3}}},
		"count after colon":   {"a:2\nb:65535\n", []Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 65535}}},
		"slots key":           {"a slots=2\n", []Host{{Name: "a", Slots: 2}}},
		"all keys":            {"u@a slots=2 max_slots=4 port=2222\n", []Host{{Name: "a", User: "u", Slots: 2, MaxSlots: 4, Port: 2222}}},
		"user key":            {"a user=me.2_x-y\n", []Host{{Name: "a", User: "me.2_x-y", Slots: 1}}},
		"keys in any order":   {"a max_slots=4 slots=4\n", []Host{{Name: "a", Slots: 4, MaxSlots: 4}}},
		"tabs and blanks":     {"\t a \t slots=2\t\n", []Host{{Name: "a", Slots: 2}}},
		"carriage returns":    {"a:2\r\n\r\nb\r\n", []Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}}},
		"byte order mark":     {"\ufeffa:2\n", []Host{{Name: "a", Slots: 2}}},
		"comments":            {"# all\n\n  # more\na:2 # two\nb#c\n", []Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}}},
		"names as written":    {"N1.Example.com:1\nn_1\n", []Host{{Name: "N1.Example.com", Slots: 1}, {Name: "n_1", Slots: 1}}},
		"domains kept apart":  {"x.1.foo\nx.2.foo\n", []Host{{Name: "x.1.foo", Slots: 1}, {Name: "x.2.foo", Slots: 1}}},
		"IPv4":                {"10.0.0.1:2\n", []Host{{Name: "10.0.0.1", Slots: 2}}},
		"IPv6 in brackets":    {"[fd00::1]:2\nu@[::1] slots=3\n", []Host{{Name: "fd00::1", Slots: 2}, {Name: "::1", User: "u", Slots: 3}}},
		"bare IPv6":           {"fd00::1\nfd00::a:b slots=2\n", []Host{{Name: "fd00::1", Slots: 1}, {Name: "fd00::a:b", Slots: 2}}},
		"full bare IPv6":      {"1:2:3:4:5:6:7:8\n", []Host{{Name: "1:2:3:4:5:6:7:8", Slots: 1}}},
		"settled by slots=":   {"fd00::1:2 slots=4\n", []Host{{Name: "fd00::1:2", Slots: 4}}},
		"repeated hosts":      {"a:2\nb\na slots=3\n", []Host{{Name: "a", Slots: 5}, {Name: "b", Slots: 1}}},
		"user and port tell apart": {"a\nu@a\na port=22\na\n", []Host{
			{Name: "a", Slots: 2}, {Name: "a", User: "u", Slots: 1}, {Name: "a", Port: 22, Slots: 1}}},
		"smallest limit counts": {"a max_slots=9\na\na max_slots=5\n", []Host{{Name: "a", Slots: 3, MaxSlots: 5}}},
		"leading zeros":         {"a:010\n", []Host{{Name: "a", Slots: 10}}},
		"longest label":         {strings.Repeat("x", 63) + "\n", []Host{{Name: strings.Repeat("x", 63), Slots: 1}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("hosts.txt", strings.NewReader(tt.text))
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
		{"a cpus=4\n", `hosts.txt:1:3: "cpus=4": unknown key "cpus"; the keys are slots, max_slots, port and user`},
		{"a 4\n", `"4": expected key=value`},
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
		{"fd00::1:2\n", `could mean two things; write [fd00::1]:2 for an address and its slots, or [fd00::1:2] for the address alone`},
		{"", `hosts.txt: no host in it`},
		{"# nothing\n", `hosts.txt: no host in it`},
		{strings.Repeat("\n", MaxBytes+1), `hosts.txt: longer than 1 MiB`},
	}
	for _, tt := range tests {
		hosts, err := Parse("hosts.txt", strings.NewReader(tt.text))
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
	_, err := Parse("hosts.txt", strings.NewReader(b.String()))
	if err == nil || !strings.Contains(err.Error(), ":100001:1:") || !strings.Contains(err.Error(), "more than 100000 hosts") {
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
	got, err := ParseList("a:2, b ,user@c:4,[fd00::1]:2,a")
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
		{strings.Repeat("a,", MaxBytes), `-H: longer than 1 MiB`},
	}
	for _, tt := range tests {
		hosts, err := ParseList(tt.list)
		var perr *ParseError
		if !errors.As(err, &perr) || !strings.Contains(err.Error(), tt.want) || hosts != nil {
			t.Errorf("ParseList(%.60q) = %v, %v\nwant an error with %s", tt.list, hosts, err, tt.want)
		}
	}
}

func ExampleParse() {
	hosts, err := Parse("hosts.txt", strings.NewReader(`
		node1 slots=4            # two words
		ada@node2:2              # or one
		[fd00::7]:2 port=2222
	`))
	fmt.Print(Format(hosts), err, "\n")

	_, err = Parse("hosts.txt", strings.NewReader("node1 slots=two"))
	fmt.Println(err)
	// Output:
	// node1 slots=4
	// ada@node2 slots=2
	// [fd00::7] slots=2 port=2222
	// <nil>
	// hosts.txt:1:7: "slots=two": slots must be a whole number from 1 to 65535
}
