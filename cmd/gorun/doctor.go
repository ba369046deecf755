package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/examine"
	"github.com/gorun/gorun/cmd/gorun/internal/job"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// doctorCommand is gorun doctor, which examines the hosts that a run with the same flags would use.
type doctorCommand struct {
	jobCommand
	quick, long bool
	json        bool
	html, save  string
	against     []string
}

func newDoctor(call *invocation) *cobra.Command {
	c := &doctorCommand{jobCommand: jobCommand{invocation: call}}
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Examine hosts and the network between them, and name the bad ones",
		Long: `doctor starts a probe on each host that a run with the same flags would use. The probes look at
their hosts, time memory and processor, and measure every pair of hosts. The verdict comes first:
ok, or the hosts that are bad, how far off they are and what to do. What timing says counts only if
a second look says it again. The exit code is 0, 1 with warnings, or 3 with bad hosts or links.`,
		Example: `  gorun doctor -H f1,f2,f3
  gorun doctor --hostfile hosts.txt --quick
  gorun doctor --hostfile hosts.txt --save base.json
  gorun doctor --hostfile hosts.txt --against base.json --html doctor.html
  gorun doctor --hostfile hosts.txt --against may.json --against june.json --html doctor.html`,
		Args: noProgram,
	}
	flags := cmd.Flags()
	flags.BoolVar(&c.quick, "quick", false, "measure for about 5 s")
	flags.BoolVar(&c.long, "long", false, "measure for minutes")
	flags.BoolVar(&c.json, "json", false, "print a JSON object instead of tables")
	flags.StringVar(&c.html, "html", "", "also write a page with a map of all pairs, and the history, to this file")
	flags.StringVar(&c.save, "save", "", "also write the report to this file, for --against")
	flags.StringArrayVar(&c.against, "against", nil,
		"also compare with a report that --save wrote; of several, with the latest")
	return c.takeJobFlags(cmd, c, settings.Probes)
}

// Run examines the hosts and writes the report. The code is that of the verdict.
func (c *doctorCommand) Run(ctx context.Context) (code int, err error) {
	if _, err := c.complete(); err != nil {
		return 0, err
	}
	level, err := c.level()
	if err != nil {
		return 0, err
	}
	earlier, base, err := c.earlier()
	if err != nil {
		return 0, err
	}
	for flag, name := range map[string]string{"--save": c.save, "--html": c.html} {
		if name != "" {
			err := trust.CheckOutput(name)
			if err == nil {
				_, err = os.Stat(filepath.Dir(name)) // before the examination, which takes long
			}
			if err != nil {
				return 0, usage.Errorf("name a file that you may write to", "%s: %w", flag, err)
			}
		}
	}
	where, _, err := c.find(ctx, true)
	if err != nil {
		return 0, err
	}
	r, err := c.examiner(level).Run(ctx, where.Hosts, base)
	if err != nil {
		return 0, err
	}
	if c.json {
		err = ui.WriteJSON(c.plain, r, "")
	} else {
		err = r.WriteText(c.plain)
	}
	for name, write := range map[string]func(io.Writer) error{
		c.save: func(w io.Writer) error { return ui.WriteJSON(w, r, "") },
		c.html: func(w io.Writer) error { return r.WriteHTML(w, earlier) },
	} {
		if name != "" {
			err = errors.Join(err, writeFile(name, "name a file that you may write to", write))
		}
	}
	return r.Code(), err
}

// earlier reads the reports of earlier examinations, of which base is the latest, or nil.
func (c *doctorCommand) earlier() (all []examine.Report, base *examine.Report, err error) {
	for _, name := range c.against {
		r, err := examine.ReadReport(name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, *r)
		if base == nil || r.Began.After(base.Began) {
			base = r
		}
	}
	return all, base, nil
}

func (c *doctorCommand) level() (string, error) {
	switch {
	case c.quick && c.long:
		return "", usage.Errorf("leave one of them out", "--quick and --long exclude each other")
	case c.quick:
		return "quick", nil
	case c.long:
		return "long", nil
	}
	return "default", nil
}

// examiner returns an examiner of hosts that a run with these flags would use.
func (j *jobCommand) examiner(level string) *examine.Examiner {
	// Of the flags for ranks, only those for their environment apply.
	helper := j.o
	helper.Stage = ""
	helper.StageBack = nil
	helper.StageEnv = ""
	helper.StageBase = ""
	helper.OutputFilename = ""
	helper.Save = [3]string{}
	helper.ResultDir = ""
	helper.Show = settings.Ranks{}
	helper.ShowLocal = settings.Ranks{}
	return &examine.Examiner{
		Level:       level,
		KeepTimeout: j.flags.Changed("start-timeout"),
		Note:        j.console.Notef,
		Job: func(plan launcher.Plan, argv []string) (launcher.Options, error) {
			if argv == nil {
				argv = []string{"true"}
			}
			return job.Helper(&helper, plan, argv, j.console)
		},
	}
}

// writeFile writes a report to a file, which is not touched if the report cannot be made. hint is
// the hint of the error for a file that cannot be created.
func writeFile(name, hint string, write func(io.Writer) error) error {
	var page bytes.Buffer
	if err := write(&page); err != nil {
		return err
	}
	file, err := trust.Create(name)
	if err != nil {
		return usage.Errorf(hint, "write the report: %w", err)
	}
	_, err = file.Write(page.Bytes())
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// checkFirst examines the hosts of a run that starts argv. It excludes bad hosts from the run, or
// returns an error that names them.
func (j *jobCommand) checkFirst(ctx context.Context, argv []string) error {
	if len(argv) > 0 && slices.Contains(doctor.Levels(), argv[0]) {
		if _, err := exec.LookPath(argv[0]); err != nil {
			return usage.Errorf("write --check-first="+argv[0], "%q is a level of --check-first, not a program",
				argv[0])
		}
	}
	where, _, err := j.find(ctx, true)
	if err != nil {
		return err
	}
	r, err := j.examiner(j.o.Checkup.Level).Run(ctx, where.Hosts, nil)
	if err != nil {
		return err
	}
	if r.Verdict != "ok" && !j.console.Quiet || r.Verdict == "bad" {
		var text strings.Builder
		if err := r.WriteVerdict(&text); err != nil {
			return err
		}
		j.console.Table(text.String())
	}
	switch {
	case len(r.Bad) == 0:
		return nil
	case !j.o.Checkup.Exclude:
		return &examine.BadError{Hosts: r.Bad,
			Help: "add --exclude-bad to run without them, or leave --check-first out"}
	}
	slots := 0
	for _, h := range where.Hosts {
		if !slices.Contains(r.Bad, h.Name) {
			slots += h.Slots
		}
	}
	if need := max(cmp.Or(j.o.Elastic.MinNP, j.o.NP, where.NP), 1); slots < need {
		return &examine.BadError{Hosts: r.Bad,
			Help: fmt.Sprintf("the other hosts have %s, and the job needs %d: add hosts, or give a smaller -np",
				prose.Count(slots, "slot"), need)}
	}
	j.console.Notef("the job leaves out %s", prose.List(r.Bad))
	if j.o.Elastic.MinNP > 0 && j.o.NP > slots { // otherwise the job would wait for the excluded hosts
		j.console.Notef("it starts with %s instead of %d", prose.Count(slots, "rank"), j.o.NP)
		j.o.NP = slots
	}
	j.o.LeaveOut(r.Bad)
	return nil
}
