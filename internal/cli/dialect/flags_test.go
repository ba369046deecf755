package dialect

import (
	"encoding/csv"
	"os"
	"testing"

	"github.com/spf13/pflag"
)

// flagSet returns gorun's flags from testdata/flags.csv, which TestFlagsOfDialect of package main keeps up to date.
func flagSet(t testing.TB) *pflag.FlagSet {
	t.Helper()
	file, err := os.Open("testdata/flags.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) < 50 {
		t.Fatal(len(rows), err)
	}
	flags := pflag.NewFlagSet("gorun", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	flags.SetNormalizeFunc(Spelling)
	for _, row := range rows[1:] {
		flag := flags.VarPF(&value{kind: row[2]}, row[0], row[1], "")
		flag.NoOptDefVal = row[3]
	}
	return flags
}

// value accepts any value.
type value struct{ kind, text string }

func (v *value) Type() string          { return v.kind }
func (v *value) String() string        { return v.text }
func (v *value) Set(text string) error { v.text = text; return nil }
