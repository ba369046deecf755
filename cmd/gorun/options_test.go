package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/usage"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0":      0,
		"90":     90 * time.Second,
		"2.5":    2500 * time.Millisecond,
		".5":     500 * time.Millisecond,
		"1e3":    1000 * time.Second,
		"90s":    90 * time.Second,
		"5m":     5 * time.Minute,
		"1h30m":  90 * time.Minute,
		"100ms":  100 * time.Millisecond,
		"-0":     0,
		"87600h": 10 * 365 * 24 * time.Hour,
	} {
		var s seconds
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %v, %v; want %v", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "1d", "NaN", "Inf", "-Inf", "1e400", "1e12", "87601h", "5 m", "1,5", "0x"} {
		s := seconds(time.Minute)
		if err := s.Set(text); err == nil || time.Duration(s) != time.Minute {
			t.Errorf("%q was taken for %v, %v", text, time.Duration(s), err)
		}
	}
}

func FuzzSeconds(f *testing.F) {
	for _, s := range []string{"90", "1h30m", "-1", "1e309", "NaN", "0x1p-2", "1_000", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s seconds
		if err := s.Set(text); err != nil {
			return
		}
		if s < 0 || time.Duration(s) > 10*365*24*time.Hour {
			t.Fatalf("%q is %v", text, time.Duration(s))
		}
		var again seconds
		if err := again.Set(s.String()); err != nil || again != s {
			t.Fatalf("%q is shown as %q, which is %v, %v", text, s.String(), time.Duration(again), err)
		}
	})
}

func TestFlagDefaults(t *testing.T) {
	flags, o := flagSet()
	if err := flags.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if err := o.check(false); err != nil {
		t.Error(err)
	}
	if time.Duration(o.startTimeout) != time.Minute || time.Duration(o.grace) != 5*time.Second || o.timeout != 0 || o.stdin.String() != "0" || o.prefix != "host" || o.hostKeys != "strict" {
		t.Errorf("%+v", *o)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || strings.HasSuffix(f.Usage, ".") || f.Usage[:1] != strings.ToLower(f.Usage[:1]) && f.Usage[:3] != "SSH" && f.Usage[:4] != "YAML" {
			t.Errorf("--%s: %q", f.Name, f.Usage)
		}
	})
}

func TestFlagSpellings(t *testing.T) {
	for _, argv := range []string{"--np=3", "--num-proc=3", "--num_proc=3", "-n=3", "-n3"} {
		flags, o := flagSet()
		if err := flags.Parse([]string{argv}); err != nil || o.np != 3 || !flags.Changed("np") {
			t.Errorf("%s: np %d, %v", argv, o.np, err)
		}
	}
	for argv, want := range map[string]func(*runOptions) bool{
		"--host=a":                func(o *runOptions) bool { return o.hosts == "a" },
		"--machinefile=f":         func(o *runOptions) bool { return o.hostfile == "f" },
		"--wd=/w":                 func(o *runOptions) bool { return o.wdir == "/w" },
		"--start_timeout=3":       func(o *runOptions) bool { return time.Duration(o.startTimeout) == 3*time.Second },
		"--output_filename=dir":   func(o *runOptions) bool { return o.outputFilename == "dir" },
		"--network-interfaces=a":  func(o *runOptions) bool { return o.network.String() == "a" },
		"--network_interface=a,b": func(o *runOptions) bool { return o.network.String() == "a,b" },
		"-vvv":                    func(o *runOptions) bool { return o.verbose == 3 },
	} {
		flags, o := flagSet()
		if err := flags.Parse([]string{argv}); err != nil || !want(o) {
			t.Errorf("%s: %+v, %v", argv, *o, err)
		}
	}
}

func TestOptionsThatNoRunCanHave(t *testing.T) {
	for argv, want := range map[string]string{
		"--np=0":                 "-np 0: a job has at least 1 rank",
		"--np=-3":                "-np -3: a job has at least 1 rank",
		"--np=1048577":           "-np 1048577: at most 1048576 ranks",
		"-H=a --hostfile=f":      "",
		"--host-keys=no":         `--host-keys "no"`,
		"--stdin=1":              "",
		"--stdin=all":            "",
		"--hide=all":             "--hide all: that output would be lost",
		"--hide=none":            "",
		"--ssh-port=65536":       "--ssh-port 65536",
		"--ssh-port=-1":          "--ssh-port -1",
		"--np=1":                 "",
		"--np=1048576":           "",
		"--host-keys=accept-new": "",
		"--stdin=none":           "",
		"--ssh-port=65535":       "",
	} {
		flags, o := flagSet()
		if err := flags.Parse(strings.Fields(argv)); err != nil {
			t.Fatal(err)
		}
		err := o.check(flags.Changed("np"))
		var mistake *usage.Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", argv, err, want)
		}
	}
}

// A list of interfaces that makes no sense is a usage error wherever it stands.
func TestNetworkInterfacesThatMakeNoSense(t *testing.T) {
	const reason = `"10.0.0.0/33" is not a subnet such as 10.0.0.0/8 or fd00::/64`
	bad := map[string]string{"GORUN_NETWORK_INTERFACE": "10.0.0.0/33"}
	flags, _ := flagSet()
	for source, err := range map[string]error{
		`--network-interface "10.0.0.0/33": `:       explainUsage(flags.Parse([]string{"--network-interface", "10.0.0.0/33"}), nil),
		"GORUN_NETWORK_INTERFACE=10.0.0.0/33: ":     setDefaults(flags, lookupIn(bad), nil, settings{}),
		"f.yaml:1: network-interface=10.0.0.0/33: ": setDefaults(flags, lookupIn(nil), nil, fileOf(map[string]string{"network-interface": "10.0.0.0/33"})),
	} {
		if err == nil || err.Error() != source+reason || exitCode(err) != 2 {
			t.Errorf("%s: %v", source, err)
		}
	}
	flags, o := flagSet()
	if err := setDefaults(flags, lookupIn(map[string]string{"GORUN_NETWORK_INTERFACE": "eth0"}), nil, fileOf(map[string]string{"network-interface": "eth1"})); err != nil || o.network.String() != "eth0" {
		t.Errorf("network %q, %v", &o.network, err)
	}
}
