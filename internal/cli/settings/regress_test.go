package settings

import (
	"testing"

	"github.com/gorun/gorun/internal/test/environ"
)

// Hosts on the command line replace hosts of the environment or a file, even if given by
// another flag.
func TestWhereToRunOverridesLowerPlaces(t *testing.T) {
	for name, lower := range map[string]struct{ env, file map[string]string }{
		"environment": {env: map[string]string{"GORUN_HOSTFILE": "f"}},
		"file":        {file: map[string]string{"hostfile": "f"}},
	} {
		flags, o := NewFlags()
		if err := flags.Parse([]string{"-H=a:2"}); err != nil {
			t.Fatal(err)
		}
		if err := SetDefaults(flags, environ.Lookup(lower.env), nil, fileOf(lower.file)); err != nil {
			t.Fatal(err)
		}
		if err := o.Check(false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Settings accept the same spellings as flags.
func TestConfigTakesTheOtherSpellings(t *testing.T) {
	flags, o := NewFlags()
	file, err := parseSettings("f.yaml", []byte("num_proc: 4\nhost: a\n"), flags)
	if err != nil {
		t.Fatal(err)
	}
	if err := SetDefaults(flags, environ.Lookup(nil), nil, file); err == nil && (o.NP != 4 || o.Hosts != "a") {
		t.Errorf("np is %d, hosts %q, and nobody was told", o.NP, o.Hosts)
	}
}
