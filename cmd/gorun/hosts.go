package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/installed"
	"github.com/gorun/gorun/cmd/gorun/internal/job"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/survey"
	"github.com/gorun/gorun/launcher/transport"
)

// find returns the hosts of a run and how to reach them, except Dial. Unless ask is set, it starts
// no program.
func (j *jobCommand) find(ctx context.Context, ask bool) (hosts.Selection, survey.Reach, error) {
	finder := hosts.NewFinder(nil)
	if ask {
		finder = hosts.NewFinder(job.UnitCounter(&j.o, j.console))
	}
	where, err := hosts.Find(ctx, &j.o, finder)
	if err != nil {
		return where, survey.Reach{}, err
	}
	for _, w := range where.Warnings {
		j.console.Warningf("%s", w)
	}
	exe, err := installed.Own()
	return where, survey.Reach{
		Exe:          exe,
		StartTimeout: time.Duration(j.o.StartTimeout),
		Trace:        j.console.Tracef,
	}, err
}

// reportFailed prints the hosts that failed and returns the exit code.
func reportFailed(failed []launcher.HostError, console *ui.UI) (code int) {
	if len(failed) == 0 {
		return 0
	}
	console.ReportHosts(failed)
	return 1
}

// hostsCommand is gorun hosts, which lists the hosts that a run with the same flags would use.
type hostsCommand struct {
	jobCommand
	check, json bool
}

func newHosts(call *invocation) *cobra.Command {
	c := &hostsCommand{jobCommand: jobCommand{invocation: call}}
	cmd := &cobra.Command{
		Use:   "hosts [flags]",
		Short: "Show the hosts that a run would use, and check that they are reachable",
		Long: `hosts prints the hosts that a run with the same flags would use: slots, login, transport
and source. It starts nothing, here or there. With --check it runs a discovery script, counts
the cores of hosts that have a slot for each, connects to all hosts and starts gorun's agent
there, as a run does; the exit code is 1 if that fails on any host.`,
		Example: `  gorun hosts --hostfile hosts.txt
  gorun hosts --hostfile hosts.txt -H ^f3 --check
  gorun hosts -H f1:2,f2:2 --json`,
		Args: noProgram,
	}
	cmd.Flags().BoolVar(&c.check, "check", false,
		"run the discovery script, connect to every host and start gorun's agent there")
	cmd.Flags().BoolVar(&c.json, "json", false, "print a JSON object instead of a table")
	return c.takeJobFlags(cmd, c, settings.Connects)
}

// Run prints the hosts. The code is 1 if a checked host failed.
func (c *hostsCommand) Run(ctx context.Context) (code int, err error) {
	if _, err := c.complete(); err != nil {
		return 0, err
	}
	list, reach, err := c.list(ctx, c.check)
	if err != nil {
		return 0, err
	}
	var failed []launcher.HostError
	if c.check {
		failed = list.check(ctx, reach)
	}
	if list.where.Unasked != nil {
		c.console.Hintf("to ask now, add --check")
	}
	if c.json {
		err = list.writeJSON(c.plain)
	} else {
		err = list.writeTable(c.plain)
	}
	return reportFailed(failed, c.console), err
}

// list returns the hosts of a run, and how to reach them.
func (j *jobCommand) list(ctx context.Context, ask bool) (hostList, survey.Reach, error) {
	where, reach, err := j.find(ctx, ask)
	if err != nil {
		return hostList{}, reach, err
	}
	routes, err := transport.NewRoutes(j.o.Options)
	if err != nil {
		return hostList{}, reach, err
	}
	reach.Dial = routes.Dialer(j.o.Options)
	list := hostList{where: where, sshPort: j.o.SSHPort}
	for _, h := range where.Hosts {
		list.rows = append(list.rows, hostRow{host: h, by: routes.Of(h)})
	}
	return list, reach, nil
}

// hostList is the output of gorun hosts.
type hostList struct {
	where   hosts.Selection
	sshPort int // default port
	rows    []hostRow
}

type hostRow struct {
	host    hostfile.Host
	by      string
	checked *survey.Checked // nil: not checked
}

// check connects to the hosts, and returns those that failed.
func (l hostList) check(ctx context.Context, reach survey.Reach) (failed []launcher.HostError) {
	for i, checked := range survey.Check(ctx, l.where.Hosts, reach) {
		l.rows[i].checked = &checked
		if checked.Err != nil {
			failed = append(failed, launcher.HostError{Host: checked.Host.Name, Err: checked.Err})
		}
	}
	return failed
}

// port returns the SSH port of a host; 0 leaves it to the SSH configuration.
func (l hostList) port(r hostRow) int {
	if r.by != "ssh" {
		return 0
	}
	return cmp.Or(r.host.Port, l.sshPort)
}

// writeTable writes a line per host, with a dash for unknown values.
func (l hostList) writeTable(out io.Writer) error {
	number := func(n int) string {
		if n == 0 {
			return "-"
		}
		return strconv.Itoa(n)
	}
	err := ui.WriteColumns(out, func(table io.Writer) {
		columns := "host\tslots\tmax\tuser\tport\tby"
		checking := len(l.rows) > 0 && l.rows[0].checked != nil
		if checking {
			columns += "\tagent\ttime\tsshd\tmachine"
		}
		fmt.Fprintln(table, columns)
		for _, r := range l.rows {
			h := r.host
			slots := strconv.Itoa(h.Slots)
			if h.Auto {
				slots = "auto"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s", h.Name, slots, number(h.MaxSlots), cmp.Or(h.User, "-"),
				number(l.port(r)), r.by)
			if c := r.checked; c != nil {
				state := "ok"
				if c.Err != nil {
					state = "failed"
				}
				fmt.Fprintf(table, "\t%s\t%s\t%s\t%s", state, ui.Seconds(c.Took), cmp.Or(c.Address, "-"),
					cmp.Or(c.Machine, "-"))
			}
			fmt.Fprintln(table)
		}
	})
	if err != nil {
		return err
	}
	if l.where.Unasked != nil {
		_, err = fmt.Fprintln(out, l.where.Summary())
		return err
	}
	asked := ""
	if np := l.where.NP; np > 0 {
		asked = ", " + prose.Count(np, "rank")
	}
	_, err = fmt.Fprintf(out, "%s, %s%s, from %s\n", prose.Count(len(l.rows), "host"),
		prose.Count(l.where.Slots(), "slot"), asked, l.where.Source)
	return err
}

func (l hostList) writeJSON(out io.Writer) error {
	type outcome struct {
		OK      bool    `json:"ok"`
		Seconds float64 `json:"seconds"`
		Sshd    string  `json:"sshd,omitempty"`
		Machine string  `json:"machine,omitempty"`
		Error   string  `json:"error,omitempty"`
		Hint    string  `json:"hint,omitempty"`
	}
	type row struct {
		Host     string   `json:"host"`
		Slots    int      `json:"slots"`
		Auto     bool     `json:"auto,omitempty"`
		MaxSlots int      `json:"max_slots,omitempty"`
		GPUs     int      `json:"gpus,omitempty"`
		User     string   `json:"user,omitempty"`
		Port     int      `json:"port,omitempty"`
		By       string   `json:"by"`
		Check    *outcome `json:"check,omitempty"`
	}
	all := struct {
		Source  string   `json:"source"`
		Unasked []string `json:"unasked,omitempty"`
		Slots   int      `json:"slots"`
		Ranks   int      `json:"ranks,omitempty"`
		Hosts   []row    `json:"hosts"`
	}{l.where.Source, l.where.Unasked, l.where.Slots(), l.where.NP, []row{}}
	for _, r := range l.rows {
		h := row{
			Host:     r.host.Name,
			Slots:    r.host.Slots,
			Auto:     r.host.Auto,
			MaxSlots: r.host.MaxSlots,
			GPUs:     r.host.GPUs,
			User:     r.host.User,
			Port:     l.port(r),
			By:       r.by,
		}
		if c := r.checked; c != nil {
			h.Check = &outcome{
				OK:      c.Err == nil,
				Seconds: c.Took.Seconds(),
				Sshd:    c.Address,
				Machine: c.Machine,
			}
			if c.Err != nil {
				h.Check.Error = c.Err.Error()
				h.Check.Hint = usage.Hint(c.Err)
			}
		}
		all.Hosts = append(all.Hosts, h)
	}
	return ui.WriteJSON(out, all, "")
}
