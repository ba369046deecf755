package hostfile

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a\n", "a:2\n", "user@a slots=2 port=2222\n", "a slots=2 max_slots=4 # x\n",
		"\ufeffa\r\n\r\n\tb:2 \r\n", "[fd00::1]:2\nfd00::1\nfd00::1:2 slots=4\n", "10.0.0.1\n4\n",
		"a:65535\na:1\n", "a max_slots=2\na max_slots=3\na\n", "a slots=two\n", "a user=-x\n", "# only\n", "-oX=y\n",
		"f[08-10,2].x:2 gpus=1\n^f09.x\n", "a slots = 2\n\"b\" /* c\nd */ e // f\n", "a:auto max-slots=3\n",
		"+n0\n+e:2\n", "a cpus=1\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := Parse("f", strings.NewReader(s))
		var hosts []Host
		if err == nil {
			hosts, err = list.Hosts()
		}
		if err != nil {
			checkError(t, err, "f", strings.Split(strings.TrimPrefix(s, "\ufeff"), "\n"))
			return
		}
		checkHosts(t, hosts)
		// A list that is a part of what it chooses from chooses just that part.
		chosen, err := list.Select(hosts, "f")
		must.That(t, err == nil && len(chosen) == len(hosts), "%q\nchooses %+v, %v\nfrom %+v", s, chosen, err, hosts)
	})
}

func FuzzParseList(f *testing.F) {
	for _, s := range []string{
		"a:2,b,user@c:4,[fd00::1]:2", "a, b ,a", "", ",", "a:0", "a:65535,a", "f[1-2,4]:2,^f2", "+n1,+e", "a:*",
		"fd00::1", "fd00::1:2", "u@@a", "a slots=2",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hosts, err := parseList(s)
		if err != nil {
			checkError(t, err, "-H", []string{s})
			return
		}
		checkHosts(t, hosts)
		must.That(t, !strings.ContainsAny(s, "\r\n"), "ParseList(%q) took a line break", s)
		// The same hosts, one a line, are the same hosts.
		inside := 0
		lines, err := parse(strings.Map(func(r rune) rune {
			switch {
			case r == '[':
				inside++
			case r == ']':
				inside--
			case r == ',' && inside == 0:
				return '\n'
			}
			return r
		}, s))
		must.That(t, err == nil && slices.Equal(lines, hosts),
			"as a hostfile: %+v, %v\nas a list: %+v", lines, err, hosts)
	})
}

// checkError checks that err points at the word it names.
func checkError(t *testing.T, err error, file string, lines []string) {
	var e *ParseError
	must.That(t, errors.As(err, &e) && e.File == file && e.Msg != "", "not a full *ParseError: %#v", err)
	if e.Col == 0 {
		return
	}
	line := lines[max(e.Line, 1)-1]
	must.That(t, strings.HasPrefix(line[e.Col-1:], e.Word), "%v: the line is %q", err, line)
}

// checkHosts checks accepted hosts against the rules in words of their own, and
// that Format and Parse undo each other.
func checkHosts(t *testing.T, hosts []Host) {
	name := regexp.MustCompile(`^(?i:[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.(?i:[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?))*$`)
	user := regexp.MustCompile(`^([A-Za-z0-9._][A-Za-z0-9._-]*)?$`)
	for _, h := range hosts {
		if a, err := netip.ParseAddr(h.Name); !name.MatchString(h.Name) && (err != nil || !a.Is6() || a.Zone() != "") {
			t.Fatalf("host name %q got through", h.Name)
		}
		must.That(t, user.MatchString(h.User), "user name %q got through", h.User)
		must.That(t, h.Slots >= 1 && h.Slots <= 65535 && h.Port >= 0 && h.Port <= 65535 &&
			(h.MaxSlots == 0 || h.MaxSlots >= h.Slots), "numbers of %+v got through", h)
	}
	text := Format(hosts)
	again, err := parse(text)
	must.That(t, err == nil && slices.Equal(again, hosts),
		"%q\nparsed again: %+v, %v\nwant %+v", text, again, err, hosts)
}
