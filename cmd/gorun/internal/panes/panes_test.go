package panes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestCommands(t *testing.T) {
	s := Session{Gorun: "/bin/gorun", Job: "g7k2"}
	for rank := range 17 {
		s.Ranks = append(s.Ranks, Rank{rank, fmt.Sprintf("f%d", rank/8)})
	}
	var all []string
	made := map[string]int{}
	for _, c := range s.Commands(24, 80) {
		all = append(all, strings.Join(c, " "))
		made[c[0]]++
	}
	for _, want := range []string{
		"new-session -d -s gorun -x 80 -y 24 /bin/gorun attach --terminal 0 g7k2",
		"split-window -t gorun /bin/gorun attach --terminal 15 g7k2",
		"new-window -t gorun: /bin/gorun attach --terminal 16 g7k2",
		"select-pane -t gorun -T rank 9 on f1",
	} {
		check.That(t, strings.Contains(strings.Join(all, "\n")+"\n", want+"\n"),
			"no %q in\n%s", want, strings.Join(all, "\n"))
	}
	check.That(t, made["new-session"] == 1 && made["new-window"] == 1 && made["split-window"] == 15, "%v", made)
}
