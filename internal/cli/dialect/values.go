package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/usage"
)

// sshArgs translates ssh options that describe a host.
func (t *translator) sshArgs(typed string, args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if len(arg) < 2 || arg[0] != '-' {
			return usage.Errorf("it holds options of ssh only", "%s: %q is no option", typed, arg)
		}
		letter, value := arg[1:2], arg[2:]
		if strings.Contains("pilFo", letter) && value == "" {
			if len(args) == 0 {
				return usage.Errorf("", "%s: -%s needs a value", typed, letter)
			}
			value, args = args[0], args[1:]
		}
		var err error
		switch letter {
		case "p":
			err = t.emit("ssh-port", typed, []string{value})
		case "i":
			err = t.emit("ssh-identity-file", typed, []string{value})
		case "F":
			err = t.emit("ssh-config", typed, []string{value})
		case "o":
			err = t.sshOption(typed, value)
		case "x", "q", "T", "n":
			// gorun never requests a display, terminal or input.
		default:
			t.Pending = append(t.Pending, typed+" "+arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sshOption translates one -o NAME=value of ssh.
func (t *translator) sshOption(typed, option string) error {
	name, value, _ := strings.Cut(option, "=")
	switch strings.ToLower(name) {
	case "port":
		return t.emit("ssh-port", typed, []string{value})
	case "identityfile":
		return t.emit("ssh-identity-file", typed, []string{value})
	case "stricthostkeychecking":
		if value == "no" || value == "accept-new" || value == "off" {
			return t.emit("host-keys", typed, []string{"accept-new"})
		}
	case "batchmode", "connectionattempts", "connecttimeout", "loglevel":
		// gorun never prompts, retries by itself, and has --start-timeout.
	default:
		t.Pending = append(t.Pending, typed+" -o "+option)
	}
	return nil
}

// srunExport translates ALL, NONE, and lists of names and NAME=value. Only ALL sends the rest of the environment.
func (t *translator) srunExport(typed, list string) error {
	var names []string
	all := false
	for item := range strings.SplitSeq(list, ",") {
		switch {
		case item == "ALL":
			all = true
		case item != "NONE" && item != "NIL" && item != "":
			names = append(names, item)
		}
	}
	if !all {
		if err := t.emit("no-env", typed, nil); err != nil {
			return err
		}
	}
	return t.emitEach("export", typed, names)
}

// srunTime parses minutes, minutes:seconds, hours:minutes:seconds, and days-hours with the same suffixes.
func (t *translator) srunTime(typed, text string) error {
	days, clock, dashed := strings.Cut(text, "-")
	if !dashed {
		days, clock = "0", text
	}
	fields := strings.Split(clock, ":")
	units := []time.Duration{time.Minute, time.Second}
	if dashed || len(fields) == 3 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	n, err := strconv.ParseUint(days, 10, 16)
	total := time.Duration(n) * 24 * time.Hour
	if len(fields) > len(units) {
		err = strconv.ErrSyntax
	}
	for i, f := range fields[:min(len(fields), len(units))] {
		n, fieldErr := strconv.ParseUint(f, 10, 22)
		if fieldErr != nil {
			err = fieldErr
		}
		total += time.Duration(n) * units[i]
	}
	if err != nil {
		return usage.Errorf("for example "+typed+" 90, or 1:30:00", "%s %q: want minutes, minutes:seconds, hours:minutes:seconds or days-hours", typed, text)
	}
	if total == 0 {
		return nil // 0 means no limit
	}
	return t.emit("timeout", typed, []string{total.String()})
}

// pattern translates Hydra's prefix pattern.
func (t *translator) pattern(typed, text string) error {
	for i := range len(text) {
		if text[i] == '%' && (i+1 == len(text) || !strings.Contains("rh%", text[i+1:i+2])) && (i == 0 || text[i-1] != '%') {
			return usage.Errorf("use %r for the rank and %h for the host", "%s %q: gorun knows no such part", typed, text)
		}
	}
	return t.emit("prefix", typed, []string{text})
}

// qualified reads Open MPI 5's lists for --output and --display.
func (t *translator) qualified(reader, typed, list string) error {
	for item := range strings.SplitSeq(list, ",") {
		name, value, valued := strings.Cut(item, "=")
		var err error
		switch {
		case reader == "display" && slices.Contains([]string{"map", "map-devel", "alloc", "allocation", "topo"}, name):
			err = t.emit("display-map", typed, nil)
		case reader == "display" && slices.Contains([]string{"bindings", "bind"}, name):
			err = t.emit("report-bindings", typed, nil)
		case reader == "output" && slices.Contains([]string{"tag", "tag-detailed", "tag-fullname", "rank"}, name):
			err = t.emit("prefix", typed, []string{"mpirun"})
		case reader == "output" && slices.Contains([]string{"merge", "merge-stderr-to-stdout"}, name):
			err = t.emit("merge-stderr", typed, nil)
		case reader == "output" && name == "timestamp":
			err = t.emit("timestamp", typed, nil)
		case reader == "output" && name == "raw":
			t.Pending = append(t.Pending, typed+" "+name)
		case reader == "output" && name == "nocopy": // of the directory before it
			err = t.emit("hide", typed, []string{"all"})
		case reader == "output" && valued && slices.Contains([]string{"dir", "directory"}, name):
			err = t.outputDir(typed, value)
		default:
			err = usage.Errorf("gorun help compat lists what there is", "%s %s: gorun does not support it", typed, item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EnvironmentSettings translates Open MPI's launcher settings in OMPI_MCA_NAME and PRTE_MCA_NAME. Settings of the
// library go to the ranks unchanged. A default hostfile is a source of hosts and not included.
func EnvironmentSettings(environ []string, flags *pflag.FlagSet) (Line, error) {
	t := &translator{flags: flags, dialect: Own, fromEnv: true, Line: Line{Typed: map[string]string{}}}
	sorted := slices.Sorted(slices.Values(environ))
	for _, kv := range sorted {
		variable, value, _ := strings.Cut(kv, "=")
		name, found := strings.CutPrefix(variable, "OMPI_MCA_")
		if !found {
			if name, found = strings.CutPrefix(variable, "PRTE_MCA_"); !found {
				continue
			}
		}
		if !slices.ContainsFunc(mcaWords(), func(w word) bool { return slices.Contains(strings.Fields(w.names), name) }) {
			if forLauncher(name) {
				t.ignored = append(t.ignored, kv)
			}
			continue
		}
		if err := t.mca(name, value, variable); err != nil {
			return t.Line, fmt.Errorf("in the environment: %w", err)
		}
	}
	return t.Line, nil
}

// forLauncher reports whether a setting belongs to Open MPI's launcher, not its library.
func forLauncher(name string) bool {
	for _, framework := range []string{"plm_", "orte_", "prte_", "rmaps_", "ras_", "odls_", "ess_", "routed_", "iof_", "rml_"} {
		if strings.HasPrefix(name, framework) {
			return true
		}
	}
	return false
}
