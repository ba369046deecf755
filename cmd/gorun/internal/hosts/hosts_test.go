package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/usage"
)

var errSilent = errors.New("broken does not answer")

func TestFind(t *testing.T) {
	files := map[string]string{
		"hosts": "a slots=4\nb slots=2\n", "odd": "a slots=2 color=red\n", "first": "+n0\n",
		"/etc/mpi/hostfile": "w0 slots=8\n", "no": "^x\n",
		"nodes": "n1\nn1\nn2\n", "named": "node1.example.com slots=4\nnode2 slots=2\nnode3\nnode3\n",
		"bad": "a\nb slots=x\n", "limited": "a slots=auto max_slots=4\n",
		"list.txt": "a slots=2\n", "./list": "a\n", "log.txt": "step 1 loss 2\n",
		"mixed": "here\na\nb slots=2\nc gpus=4\nd\nd\n",
		"ranks": "rank 0=b slot=0\nrank 1=a slot=1:0\nrank 2=b slot=1\n", "relative": "rank 0=+n1 slot=0\n",
		"six": "rank 0=[fe80::1%eth0] slot=0\nrank 1=fd00::2 slot=0\nrank 2=[fe80::1%eth0] slot=1\n",
	}
	schedulers := map[string]map[string]string{
		"slurm": {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "f[1-2]", "SLURM_TASKS_PER_NODE": "2,1",
			"SLURM_NTASKS": "3"},
		"pbs": {"PBS_NODEFILE": "nodes"},
	}
	open := func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	var asked []string
	count := func(_ context.Context, hosts []hostfile.Host, unit string) (cores []int, err error) {
		for _, h := range hosts {
			asked = append(asked, h.Name)
			n := map[string]int{"a": 16, "b": 1, "c": 1 << 20}[h.Name]
			if unit != "auto" {
				asked = append(asked, "("+unit+")")
				n = map[string]int{"a": 4, "here": 1}[h.Name]
			}
			cores = append(cores, n)
			if h.Name == "broken" {
				err = errSilent
			}
		}
		return cores, err
	}
	golden.Cases(t, "testdata/find.txt", func(input string) (string, error) {
		words, err := usage.SplitShell(input)
		if err != nil {
			return "", err
		}
		var argv []string
		env := map[string]string{}
		for _, w := range words {
			name, value, isVariable := strings.Cut(w, "=")
			switch {
			case schedulers[w] != nil:
				maps.Copy(env, schedulers[w])
			case isVariable && name == strings.ToUpper(name):
				env[name] = value
			default:
				argv = append(argv, w)
			}
		}
		flags, o := settings.NewFlags()
		if err := flags.Parse(argv); err != nil {
			return "", err
		}
		o.SlotsByCores = env["GORUN_DIALECT"] == "mpirun"
		asked = nil
		p, err := Find(t.Context(), o, Finder{
			Lookup:   environ.Lookup(env),
			Open:     open,
			Hostname: "here",
			Here:     func(unit string) int { return map[string]int{"auto": 6, "socket": 2}[unit] },
			count:    count,
		})
		check.That(t, err == nil || usage.Is(err) || err == errSilent, "%s: %v is no usage error", input, err)
		for i := range p.Hosts {
			p.Hosts[i].Auto = false // to show the number of slots
		}
		text := strings.ReplaceAll(hostfile.Format(p.Hosts), "\n", "; ")
		if p.NP != 0 {
			text += fmt.Sprintf("np=%d; ", p.NP)
		}
		for rank, seat := range p.Seats {
			text += fmt.Sprintf("%d on %s: %s; ", rank, p.Hosts[seat.Host].Name, seat.Cores)
		}
		text += "from " + p.Source
		if asked != nil {
			text += "; asked " + strings.Join(asked, " ")
		}
		for _, w := range p.Warnings {
			text += "; warning: " + w
		}
		return text, err
	})
}
