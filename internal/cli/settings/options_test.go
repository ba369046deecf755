package settings

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/test/environ"
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
		var s Seconds
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %v, %v; want %v", text, time.Duration(s), err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "1d", "NaN", "Inf", "-Inf", "1e400", "1e12", "87601h", "5 m", "1,5", "0x"} {
		s := Seconds(time.Minute)
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
		var s Seconds
		if err := s.Set(text); err != nil {
			return
		}
		if s < 0 || time.Duration(s) > 10*365*24*time.Hour {
			t.Fatalf("%q is %v", text, time.Duration(s))
		}
		var again Seconds
		if err := again.Set(s.String()); err != nil || again != s {
			t.Fatalf("%q is shown as %q, which is %v, %v", text, s.String(), time.Duration(again), err)
		}
	})
}

func TestFlagDefaults(t *testing.T) {
	flags, o := NewFlags()
	if err := flags.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(false); err != nil {
		t.Error(err)
	}
	if time.Duration(o.StartTimeout) != time.Minute || time.Duration(o.Grace) != 5*time.Second || o.Timeout != 0 || o.Stdin.String() != "0" || o.Prefix != "host" || o.HostKeys != "strict" {
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
		flags, o := NewFlags()
		if err := flags.Parse([]string{argv}); err != nil || o.NP != 3 || !flags.Changed("np") {
			t.Errorf("%s: np %d, %v", argv, o.NP, err)
		}
	}
	for argv, want := range map[string]func(*Options) bool{
		"--host=a":                func(o *Options) bool { return o.Hosts == "a" },
		"--machinefile=f":         func(o *Options) bool { return o.Hostfile == "f" },
		"--wd=/w":                 func(o *Options) bool { return o.Wdir == "/w" },
		"--start_timeout=3":       func(o *Options) bool { return time.Duration(o.StartTimeout) == 3*time.Second },
		"--output_filename=dir":   func(o *Options) bool { return o.OutputFilename == "dir" },
		"--network-interfaces=a":  func(o *Options) bool { return o.Network.String() == "a" },
		"--network_interface=a,b": func(o *Options) bool { return o.Network.String() == "a,b" },
		"-vvv":                    func(o *Options) bool { return o.Verbose == 3 },
	} {
		flags, o := NewFlags()
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
		flags, o := NewFlags()
		if err := flags.Parse(strings.Fields(argv)); err != nil {
			t.Fatal(err)
		}
		err := o.Check(flags.Changed("np"))
		var mistake *usage.Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", argv, err, want)
		}
	}
}

// An invalid list of interfaces is a usage error from any source.
func TestNetworkInterfacesThatMakeNoSense(t *testing.T) {
	const reason = `"10.0.0.0/33" is not a subnet such as 10.0.0.0/8 or fd00::/64`
	bad := map[string]string{"GORUN_NETWORK_INTERFACE": "10.0.0.0/33"}
	flags, _ := NewFlags()
	for source, err := range map[string]error{
		`--network-interface "10.0.0.0/33": `:       ExplainUsage(flags.Parse([]string{"--network-interface", "10.0.0.0/33"}), nil),
		"GORUN_NETWORK_INTERFACE=10.0.0.0/33: ":     SetDefaults(flags, environ.Lookup(bad), nil, settings{}),
		"f.yaml:1: network-interface=10.0.0.0/33: ": SetDefaults(flags, environ.Lookup(nil), nil, fileOf(map[string]string{"network-interface": "10.0.0.0/33"})),
	} {
		if err == nil || err.Error() != source+reason || exitcode.Of(err) != 2 {
			t.Errorf("%s: %v", source, err)
		}
	}
	flags, o := NewFlags()
	if err := SetDefaults(flags, environ.Lookup(map[string]string{"GORUN_NETWORK_INTERFACE": "eth0"}), nil, fileOf(map[string]string{"network-interface": "eth1"})); err != nil || o.Network.String() != "eth0" {
		t.Errorf("network %q, %v", &o.Network, err)
	}
}
