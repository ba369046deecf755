package main

import (
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
	"github.com/spf13/pflag"

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

// doctorOptions holds the flags of doctor, in addition to those of a run.
type doctorOptions struct {
	quick, long   bool
	json          bool
	html          string
	save, against string
}

func (d doctorOptions) level() (string, error) {
	switch {
	case d.quick && d.long:
		return "", usage.Errorf("leave one of them out", "--quick and --long exclude each other")
	case d.quick:
		return "quick", nil
	case d.long:
		return "long", nil
	}
	return "default", nil
}

// newDoctor returns the command gorun doctor.
func newDoctor(run func(flags *pflag.FlagSet, o *settings.Options, d doctorOptions) error) *cobra.Command {
	var o settings.Options
	var d doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Examine hosts and the network between them, and name the bad ones",
		Long: `doctor starts a probe on each host that a run with the same flags would use. The probes look at their hosts, time
memory and processor, and measure every pair of hosts. The verdict comes first: ok, or the hosts that are
bad, how far off they are and what to do. What timing says counts only if a second look says it again.
The exit code is 0, 1 with warnings, or 3 with bad hosts or links.`,
		Example: `  gorun doctor -H f1,f2,f3
  gorun doctor --hostfile hosts.txt --quick
  gorun doctor --hostfile hosts.txt --save base.json
  gorun doctor --hostfile hosts.txt --against base.json --html doctor.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("name hosts with -H: gorun doctor -H "+strings.Join(args, ","),
					"gorun doctor takes no program: %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Flags(), &o, d) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&d.quick, "quick", false, "take about 5 s")
	flags.BoolVar(&d.long, "long", false, "measure for minutes")
	flags.BoolVar(&d.json, "json", false, "print a JSON object instead of tables")
	flags.StringVar(&d.html, "html", "", "also write a page with a map of all pairs to this file")
	flags.StringVar(&d.save, "save", "", "also write the report to this file, for --against")
	flags.StringVar(&d.against, "against", "", "also compare with a report that --save wrote")
	o.AddFlags(flags)
	completeFlags(cmd)
	return cmd
}

// examineHosts examines the hosts of a run, writes the report, and returns the exit code.
func examineHosts(ctx context.Context, flags *pflag.FlagSet, o *settings.Options, d doctorOptions, out io.Writer,
	console *ui.UI) (code int, err error) {
	level, err := d.level()
	if err != nil {
		return 0, err
	}
	var base *examine.Report
	if d.against != "" {
		if base, err = examine.ReadReport(d.against); err != nil {
			return 0, err
		}
	}
	for flag, name := range map[string]string{"--save": d.save, "--html": d.html} {
		if name != "" {
			err := trust.CheckOutput(name)
			if err == nil {
				_, err = os.Stat(filepath.Dir(name)) // it would be a pity to find out after the examination
			}
			if err != nil {
				return 0, usage.Errorf("name a file that you may write to", "%s: %w", flag, err)
			}
		}
	}
	where, _, err := findListed(ctx, o, true, console)
	if err != nil {
		return 0, err
	}
	r, err := newExaminer(level, flags, o, console).Run(ctx, where.Hosts, base)
	if err != nil {
		return 0, err
	}
	if d.json {
		err = ui.WriteJSON(out, r, "")
	} else {
		err = r.WriteText(out)
	}
	for name, write := range map[string]func(io.Writer) error{
		d.save: func(w io.Writer) error { return ui.WriteJSON(w, r, "") }, d.html: r.WriteHTML,
	} {
		if name != "" {
			err = errors.Join(err, writeFile(name, write))
		}
	}
	return r.Code(), err
}

// newExaminer returns an examiner of hosts that a run with these flags would use.
func newExaminer(level string, flags *pflag.FlagSet, o *settings.Options, console *ui.UI) *examine.Examiner {
	helper := *o // of what concerns ranks only their environment counts
	helper.Stage = ""
	helper.StageEnv = ""
	helper.StageBase = ""
	helper.OutputFilename = ""
	helper.Save = [3]string{}
	helper.ResultDir = ""
	helper.Show = settings.Ranks{}
	helper.ShowLocal = settings.Ranks{}
	return &examine.Examiner{
		Level:   level,
		Patient: flags.Changed("start-timeout"),
		Note:    console.Notef,
		Job: func(plan launcher.Plan, argv []string) (launcher.Options, error) {
			if argv == nil {
				argv = []string{"true"}
			}
			return job.Helper(&helper, plan, argv, console)
		},
	}
}

// writeFile writes a file of the user's.
func writeFile(name string, write func(io.Writer) error) error {
	file, err := trust.Create(name)
	if err != nil {
		return usage.Errorf("name a file that you may write to", "write the report: %w", err)
	}
	if err = errors.Join(write(file), file.Close()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// checkFirst examines the hosts of a run. Bad ones are left out of o, or the error names them.
func checkFirst(ctx context.Context, flags *pflag.FlagSet, o *settings.Options, argv []string, console *ui.UI) error {
	if len(argv) > 0 && slices.Contains(doctor.Levels(), argv[0]) {
		if _, err := exec.LookPath(argv[0]); err != nil {
			return usage.Errorf("write --check-first="+argv[0], "%q is a level of --check-first, not a program",
				argv[0])
		}
	}
	where, _, err := findListed(ctx, o, true, console)
	if err != nil {
		return err
	}
	r, err := newExaminer(o.Checkup.Level, flags, o, console).Run(ctx, where.Hosts, nil)
	if err != nil {
		return err
	}
	if r.Verdict != "ok" && !console.Quiet || r.Verdict == "bad" {
		var text strings.Builder
		if err := r.WriteVerdict(&text); err != nil {
			return err
		}
		console.Table(text.String())
	}
	switch {
	case len(r.Bad) == 0:
		return nil
	case !o.Checkup.Exclude:
		return &examine.BadError{Hosts: r.Bad,
			Help: "add --exclude-bad to run without them, or leave --check-first out"}
	}
	slots := 0
	for _, h := range where.Hosts {
		if !slices.Contains(r.Bad, h.Name) {
			slots += h.Slots
		}
	}
	if need := max(cmp.Or(o.Elastic.MinNP, o.NP, where.NP), 1); slots < need {
		return &examine.BadError{Hosts: r.Bad,
			Help: fmt.Sprintf("the other hosts have %s, and the job needs %d: add hosts, or give a smaller -np",
				prose.Count(slots, "slot"), need)}
	}
	console.Notef("the job leaves out %s", prose.List(r.Bad))
	if o.Elastic.MinNP > 0 && o.NP > slots { // else it would wait for the hosts that it leaves out
		console.Notef("it starts with %s instead of %d", prose.Count(slots, "rank"), o.NP)
		o.NP = slots
	}
	o.LeaveOut(r.Bad)
	return nil
}
