package settings

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/usage"
)

// section is a section of horovodrun's configuration file. A key is the horovodrun flag prefix+key,
// except that "enabled" is the flag named like the section.
type section struct {
	name, prefix string
	keys         []string
}

// horovodSections lists the keys that horovodrun reads, spelled like flags. Package dialect
// translates them.
func horovodSections() []section {
	return []section{
		{"params", "", []string{"fusion-threshold-mb", "cycle-time-ms", "cache-capacity",
			"hierarchical-allreduce", "hierarchical-allgather", "torus-allreduce"}},
		{"autotune", "autotune-", []string{"enabled", "log-file", "warmup-samples", "steps-per-sample",
			"bayes-opt-max-samples", "gaussian-process-noise"}},
		{"timeline", "timeline-", []string{"filename", "mark-cycles"}},
		{"stall-check", "stall-check-", []string{"enabled", "warning-time-seconds", "shutdown-time-seconds"}},
		{"library-options", "", []string{"mpi-threads-disable", "num-nccl-streams", "thread-affinity",
			"gloo-timeout-seconds"}},
		{"logging", "log-", []string{"level", "with-timestamp", "hide-timestamp"}},
	}
}

func sectionNamed(name string) (section, bool) {
	all := horovodSections()
	i := slices.IndexFunc(all, func(s section) bool { return s.name == name })
	if i < 0 {
		return section{}, false
	}
	return all[i], true
}

// word returns the horovodrun flag of a key of the section.
func (s section) word(key string) string {
	if key == "enabled" {
		return s.name
	}
	return s.prefix + key
}

// isText reports keys whose values are not numbers.
func isText(word string) bool {
	return slices.Contains([]string{"autotune-log-file", "timeline-filename", "log-level", "thread-affinity"}, word)
}

// section reads a section of a horovodrun configuration.
func (r *settingsReader) section(e entry, s section) error {
	keys, err := r.entries(e.value, e.typed)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if !slices.Contains(s.keys, k.name) {
			return r.unknown(k, s.keys, e.typed+" has "+strings.ReplaceAll(strings.Join(s.keys, ", "), "-", "_"))
		}
		if resolved(k.value).Tag == "!!null" {
			continue // horovodrun ignores them too
		}
		value, err := r.text(k, k.value)
		if err == nil {
			err = r.horovod(k, s.word(k.name), value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// horovod translates a key as the horovodrun flag word.
func (r *settingsReader) horovod(e entry, word, value string) error {
	values := []string{value}
	if n, _ := dialect.Horovod.Takes(word); n == 0 {
		var yes bool
		if resolved(e.value).Decode(&yes) != nil {
			return r.fault(e, "", "%q: expected true or false", value)
		}
		switch {
		case yes:
		case word == "log-with-timestamp":
			word = "log-without-timestamp"
		default:
			word = "no-" + word
		}
		values = nil
	} else if n, err := strconv.ParseFloat(value, 64); !isText(word) && (err != nil || !(n >= 0)) {
		return r.fault(e, "", "%q: expected a number, 0 or more", value)
	}
	return r.take(e, word, e.typed, values)
}

// take appends the settings that a horovodrun flag translates to. typed is the key as it stands in
// the file.
func (r *settingsReader) take(e entry, flag, typed string, values []string) error {
	line, err := dialect.TranslateFlag(dialect.Horovod, flag, typed, values, r.flags)
	if err != nil {
		return usage.Errorf(usage.Hint(err), "%s:%d: %w", r.name, e.line, err)
	}
	for _, arg := range line.Args {
		flag, value, valued := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !valued {
			value = r.flags.Lookup(flag).NoOptDefVal
		}
		r.list = append(r.list, setting{flag, []string{value}, e.line})
	}
	r.Unfulfilled.Add(line)
	return nil
}

// controller reads horovodrun's choice of a bootstrap.
func (r *settingsReader) controller(e entry) error {
	value, err := r.text(e, e.value)
	if err != nil {
		return err
	}
	word := strings.ToLower(value)
	if word != "gloo" && word != "mpi" {
		return r.fault(e, "", "%q: it must be gloo or mpi", value)
	}
	return r.take(e, word, e.typed+" "+word, nil)
}
