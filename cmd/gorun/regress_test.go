package main

import "testing"

// Flags > environment > file: where to run, given on the command line, must win over
// the other way to say it in a lower place, not clash with it.
func TestWhereToRunOverridesLowerPlaces(t *testing.T) {
	for name, lower := range map[string]struct{ env, file map[string]string }{
		"environment": {env: map[string]string{"GORUN_HOSTFILE": "f"}},
		"file":        {file: map[string]string{"hostfile": "f"}},
	} {
		flags, o := flagSet()
		if err := flags.Parse([]string{"-H=a:2"}); err != nil {
			t.Fatal(err)
		}
		if err := setDefaults(flags, lookupIn(lower.env), nil, fileOf(lower.file)); err != nil {
			t.Fatal(err)
		}
		if err := o.check(false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Spellings that flags have, settings have too; they must not be ignored.
func TestConfigTakesTheOtherSpellings(t *testing.T) {
	flags, o := flagSet()
	file, err := parseSettings("f.yaml", []byte("num_proc: 4\nhost: a\n"), flags)
	if err != nil {
		t.Fatal(err)
	}
	if err := setDefaults(flags, lookupIn(nil), nil, file); err == nil && (o.np != 4 || o.hosts != "a") {
		t.Errorf("np is %d, hosts %q, and nobody was told", o.np, o.hosts)
	}
}
