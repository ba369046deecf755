// Package settings holds the flags of a run and fills them from the command line, the environment,
// configuration files and job files.
package settings

import (
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/transport"
)

// Options holds the flags of a run.
type Options struct {
	NP              int
	Nodes           count
	Hosts           string
	Hostfile        string
	Pods            string // label selector
	noOversubscribe bool
	placement
	Elastic ElasticOptions

	Exports  []string
	EnvFiles []string
	Unset    []string
	NoEnv    bool
	Wdir     string
	Stdin    stdinChoice

	Stage      string
	StageBack  []string // patterns of files that come back
	StageLimit ByteSize
	StageEnv   string
	StageBase  string

	transport.Options

	Network         network
	Encrypt         bool
	NoNewPrivileges bool
	MPI             mpiFlag
	MaxSpawn        spawnLimit

	StartTimeout Seconds
	MPITimeout   Seconds // StartTimeout where the user has set it, else 0
	Timeout      Seconds
	Warn         Warning
	OnEnd        string // command of a shell; "": none
	Setup        string // command of a shell on each host; "": none
	Teardown     string // the same
	Grace        Seconds
	KeepGoing    keepGoing

	Foreign        bool           // gorun stands for another launcher
	StandsFor      string         // srun or flux, whose variables ranks get too
	Codes          launcher.Codes // how ranks' failures become the exit code
	Prefix         string
	TagOutput      bool
	Timestamp      bool
	Color          string
	Fold           Fold
	NoFold         bool
	Show           Ranks
	ShowLocal      Ranks
	Hide           hidden
	MergeStderr    bool
	OutputFilename string
	Save           saveFiles
	ResultDir      string
	ResultLimit    ByteSize
	Summary        bool
	Quiet          bool
	JSONEvents     string

	Checkup Checkup
	Control Control
	Tools   Tools
	Hang    Hang
	Watch   Watch

	Config     string
	JobFile    string
	dialect    string
	DisplayMap bool
	DryRun     bool
	JSON       bool
	EnvFlags   bool
	Verbose    int
}

// Check reports values that no run can have.
func (o *Options) Check(npSet bool) error {
	near := func(flag, value string) string { return nearestWord(flag, "--"+flag, value) }
	switch {
	case npSet && o.NP < 1:
		return faultOf("np", "give the number of ranks, for example -np 4", "%d: a job has at least 1 rank", o.NP)
	case o.NP > 1<<20:
		return faultOf("np", "", "%d: at most %d ranks", o.NP, 1<<20)
	case !slices.Contains([]string{"auto", "ssh", "srun", "system-ssh", "rsh", "kubexec", "local"}, o.Launcher):
		return faultOf("launcher", near("launcher", o.Launcher),
			"%q: it must be auto, ssh, srun, system-ssh, rsh, kubexec or local", o.Launcher)
	case o.HostKeys != "strict" && o.HostKeys != "accept-new":
		return faultOf("host-keys", near("host-keys", o.HostKeys), "%q: it must be strict or accept-new", o.HostKeys)
	case !slices.Contains([]string{"auto", "always", "never"}, o.Color):
		return faultOf("color", near("color", o.Color), "%q: it must be auto, always or never", o.Color)
	case o.NoFold && o.Fold.asked():
		return faultOf("fold", "", "contradicts --no-fold")
	case o.Fold.asked() && o.Prefix == "none":
		return faultOf("fold", "add --prefix rank", "needs prefixes, which say whose line it is")
	case o.Hide.Beyond(o.Save.Hidden()) && o.OutputFilename == "":
		return faultOf("hide", "say where it goes: --output-filename DIR, torchrun's --log-dir",
			"%v: that output would be lost", &o.Hide)
	case o.SSHPort < 0 || o.SSHPort > 65535:
		return faultOf("ssh-port", "", "%d: ports go from 1 to 65535", o.SSHPort)
	case o.Watch.noPort():
		return faultOf("metrics", "", "%q: ports go from 0 to 65535", o.Watch.Metrics)
	case o.JSON && !o.DryRun:
		return faultOf("json", "to record the steps of a running job, use --json-events FILE", "requires --dry-run")
	}
	for _, pattern := range o.StageBack {
		if _, err := path.Match(pattern, ""); err != nil || !filepath.IsLocal(pattern) || pattern == "." {
			return faultOf("stage-back", "name files below the ranks' working folder, for example 'ckpt/*.pt'",
				"%q: it must be a path or a pattern below a folder", pattern)
		}
	}
	if o.Pods != "" && o.Hostfile != "" {
		return faultOf("hosts-from-pods", "leave one of them out", "cannot be combined with --hostfile")
	}
	if err := o.checkElastic(npSet); err != nil {
		return err
	}
	if err := o.Checkup.check(o); err != nil {
		return err
	}
	if err := o.Hang.check(); err != nil {
		return err
	}
	if err := o.Control.check(o); err != nil {
		return err
	}
	if err := o.Tools.check(o); err != nil {
		return err
	}
	return o.placement.check()
}

// count is a number of at least 1; 0 if not given.
type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "int" }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("expected a whole number from 1 to %d", 1<<20)
	}
	*c = count(n)
	return nil
}

// Ranks is a set of ranks such as 0,8-11. The zero value contains all ranks.
type Ranks [][2]int

func (r *Ranks) Type() string { return "ranks" }

func (r *Ranks) String() string {
	var parts []string
	for _, part := range *r {
		if part[0] == part[1] {
			parts = append(parts, strconv.Itoa(part[0]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", part[0], part[1]))
		}
	}
	return strings.Join(parts, ",")
}

func (r *Ranks) Set(text string) error {
	set, err := usage.ParseRanks(text)
	if err == nil {
		*r = set
	}
	return err
}

// Filter returns whether a rank is in r, or nil for all ranks. A rank outside a job of size ranks
// is an error.
func (r Ranks) Filter(size int) (func(rank int) bool, error) {
	if len(r) == 0 {
		return nil, nil
	}
	for _, part := range r {
		if part[1] >= size {
			return nil, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", size-1),
				"--show %s: there is no rank %d", r.String(), part[1])
		}
	}
	return r.has, nil
}

func (r Ranks) has(rank int) bool {
	return slices.ContainsFunc(r, func(part [2]int) bool { return part[0] <= rank && rank <= part[1] })
}

// network is a list of interfaces and subnets.
type network struct{ launcher.Network }

func (n *network) Type() string { return "list" }

func (n *network) Set(text string) (err error) {
	n.Network, err = route.ParseNetwork(text)
	return err
}

// Seconds is a duration: a number of seconds, or a number with a unit.
type Seconds time.Duration

func (s *Seconds) String() string { return time.Duration(*s).String() }
func (s *Seconds) Type() string   { return "time" }

func (s *Seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(n, 'f', -1, 64) + "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 10*365*24*time.Hour {
		return fmt.Errorf("expected seconds or a duration such as 90s, 5m or 1h30m")
	}
	*s = Seconds(d)
	return nil
}

// ByteSize is a number of bytes such as 8, 4K, 1M or 1G.
type ByteSize int

func (s *ByteSize) String() string { return strconv.Itoa(int(*s)) }

func (s *ByteSize) Type() string { return "bytes" }

func (s *ByteSize) Set(text string) error {
	number := strings.TrimSuffix(strings.ToUpper(text), "B")
	shift := 0
	for i, unit := range []string{"K", "M", "G"} {
		if n, found := strings.CutSuffix(strings.TrimSuffix(number, "I"), unit); found {
			number = n
			shift = 10 * (i + 1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return errors.New("expected bytes, for example 8, 64K or 256M")
	}
	*s = ByteSize(n << shift)
	return nil
}

// NewFlags returns the flags of a run and the options that they set.
func NewFlags() (*pflag.FlagSet, *Options) {
	var o Options
	flags := pflag.NewFlagSet("gorun", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	o.AddFlags(flags, Programs)
	return flags, &o
}

// Hang is the reaction to a job without progress.
type Hang struct {
	Timeout Seconds // 0: no watch for hangs
	On      string  // "report" or "kill"
}

func (h *Hang) check() error {
	switch {
	case h.On != "report" && h.On != "kill":
		return faultOf("on-hang", "for example --hang-timeout 10m --on-hang kill",
			"%q: expected report or kill", usage.Clipped(h.On))
	case h.On == "kill" && h.Timeout <= 0:
		return faultOf("on-hang", "for example --hang-timeout 10m --on-hang kill", "kill needs --hang-timeout")
	}
	return nil
}

// Watch holds the places to which the job's resource use is exported.
type Watch struct {
	Metrics string // a file, or an address; "": none
	Record  string // a folder; "": none
}

// Given reports whether the job exports its resource use, besides over its socket.
func (w *Watch) Given() bool { return w.Metrics != "" || w.Record != "" }

// noPort reports whether the metrics have an address whose port cannot be.
func (w *Watch) noPort() bool {
	if w.Metrics == "" || unlessAddress(w.Metrics) {
		return false
	}
	_, port, _ := net.SplitHostPort(w.Metrics)
	_, err := strconv.ParseUint(port, 10, 16)
	return err != nil
}

// Control is how other processes of the user find and direct the job.
type Control struct {
	Name   string // "": the job has only an id
	Detach bool   // the job runs without this terminal
	Off    bool   // nothing is served
	// Keep is how long the hosts stay connected for other jobs when none uses them; 0: only gorun
	// up keeps them.
	Keep Seconds
}

func (c *Control) check(o *Options) error {
	switch {
	case c.Name != "" && !control.ValidName(c.Name):
		return faultOf("name", "for example --name train-7",
			"%q: expected at most 64 letters, digits, dots, dashes and underscores", usage.Clipped(c.Name))
	case c.Detach && c.Off:
		return faultOf("detach", "leave out one of them", "with --no-control: nobody could find the job again")
	case c.Detach && o.Stdin != "" && o.Stdin != "none":
		return faultOf("stdin", "let a rank read a file: gorun --detach ... sh -c './program <FILE'",
			"%s with --detach: a job in the background has no input", &o.Stdin)
	}
	return nil
}

// Checkup is an examination of the hosts before a job.
type Checkup struct {
	Level   string // level of gorun doctor; "": no check
	Exclude bool   // bad hosts are left out
}

func (c *Checkup) check(o *Options) error {
	levels := []string{"", "quick", "default", "long"}
	switch {
	case !slices.Contains(levels, c.Level):
		return faultOf("check-first", "for example --check-first=quick",
			"=%s: expected quick, default or long", usage.Clipped(c.Level))
	case c.Exclude && c.Level == "":
		return faultOf("exclude-bad", "add --check-first", "needs --check-first")
	case c.Level != "" && o.HostsChange():
		return faultOf("check-first", "examine the hosts before: gorun doctor -H f1,f2",
			"with hosts that come and go: those that come later are not examined")
	case c.Exclude && (o.Rankfile != "" || o.MapBy.Sequence):
		return faultOf("exclude-bad", "leave one of them out",
			"with --rankfile or --map-by seq: these say where each rank runs")
	}
	return nil
}

// LeaveOut excludes hosts from the job.
func (o *Options) LeaveOut(hosts []string) {
	for _, h := range hosts {
		if o.Hosts != "" {
			o.Hosts += ","
		}
		o.Hosts += "^" + h
	}
}
