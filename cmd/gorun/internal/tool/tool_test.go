package tool

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// Each line of commands.txt is TOOL [| TOOL] / PROGRAM [: PROGRAM], four ranks for each program on
// two hosts, and the commands of the ranks that have tools.
func TestCommands(t *testing.T) {
	golden.Cases(t, "testdata/commands.txt", func(line string) (string, error) {
		tools, rest, _ := strings.Cut(line, " / ")
		r := Request{Tools: strings.Split(tools, " | "), Terminal: "xterm", Job: "77"}
		for text := range strings.SplitSeq(rest, " : ") {
			r.Programs = append(r.Programs, launcher.Program{Argv: strings.Fields(text), Ranks: 4})
		}
		size := 4 * len(r.Programs)
		var err error
		if r.Plan, err = plan.New([]hostfile.Host{{Name: "f1", Slots: size / 2}, {Name: "f2", Slots: size / 2}},
			plan.Request{}); err != nil {
			return "", err
		}
		d, err := Decide(r)
		if err != nil {
			return "", err
		}
		var out []string
		for _, t := range d.Tools {
			here := ""
			if t.Rank == d.Here {
				here = " on " + t.Terminal
			}
			out = append(out, fmt.Sprintf("%d%s %q", t.Rank, here, t.Argv))
		}
		return strings.Join(out, "; "), nil
	})
}

func TestRanksWithTerminalsOrStopped(t *testing.T) {
	p := must.Get(plan.New([]hostfile.Host{{Name: "f1", Slots: 100}}, plan.Request{}))(t)
	request := Request{Plan: p, Programs: []launcher.Program{{Argv: []string{"a"}, Ranks: 100}}, Terminal: "xterm"}
	for _, tc := range []struct {
		name   string
		change func(*Request)
		err    string
		want   string
	}{
		{"stopped", func(r *Request) { r.Debug = [][2]int{{3, 4}} }, "", "[] [3 4] -1 [3:halt 4:halt]"},
		{"panes", func(r *Request) { r.Panes = [][2]int{{0, 1}} }, "", "[0 1] [] -1 [0:screen 1:screen]"},
		{"a debugger in each pane", func(r *Request) {
			r.Panes = [][2]int{{0, 1}}
			r.Tools = []string{"gdb:0,1"}
		}, "", "[0 1] [] -1 [0:screen 1:screen]"},
		{"a debugger, and panes of others", func(r *Request) {
			r.Panes = [][2]int{{1, 1}}
			r.Tools = []string{"gdb:0"}
		}, "", "[1] [] 0 [0:xterm 1:screen]"},
		{"without a terminal", func(r *Request) {
			r.Tools = []string{"gdb:0"}
			r.Terminal = ""
		}, "", "[] [] -1 [0:]"},
		{"two prompts", func(r *Request) {
			r.Tools = []string{"gdb:0,8"}
		}, "ranks 0 and 8 would both read commands from this terminal", ""},
		{"no such rank", func(r *Request) { r.Debug = [][2]int{{99, 100}} }, "--debug: there is no rank 100", ""},
		{"all panes", func(r *Request) { r.Panes = All() }, "--panes: 100 ranks, and tmux shows at most 32", ""},
		{"a tool, and stopped", func(r *Request) {
			r.Tools = []string{"nsys:3"}
			r.Debug = All()
		},
			"rank 3 has a --tool, and --debug would stop that instead of the program", ""},
		{"nothing", func(*Request) {}, "", "[] [] -1 []"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := request
			tc.change(&r)
			d, err := Decide(r)
			if err != nil || tc.err != "" {
				check.That(t, fmt.Sprint(err) == tc.err, "%v", err)
				return
			}
			var tools []string
			for _, tool := range d.Tools {
				how := tool.Terminal
				if tool.Halt {
					how = "halt"
				}
				tools = append(tools, fmt.Sprintf("%d:%s", tool.Rank, how))
			}
			check.Equal(t, fmt.Sprint(d.Panes, d.Halts, d.Here, tools), tc.want)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("nsys profile -o r%r:0,8", "python -um a:b")
	f.Fuzz(func(t *testing.T, text, program string) {
		s, err := parse(text)
		if err != nil {
			return
		}
		argv := append([]string{"x"}, strings.Fields(program)...)
		command := join(s.words, argv)
		rest := argv[min(2, len(argv)):]
		check.That(t, len(rest) == 0 || slices.Equal(command[max(0, len(command)-len(rest)):], rest),
			"%q starts %q by %q", text, argv, command)
		expand(text, map[byte]string{'r': "1"}) // ends
	})
}
