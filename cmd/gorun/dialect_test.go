package main

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/dialect"
)

// flagSet is gorun's flags, and where their values go.
func flagSet() (*pflag.FlagSet, *runOptions) {
	var o runOptions
	flags := pflag.NewFlagSet("gorun", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	o.addFlags(flags)
	return flags, &o
}

func commands() []string { return []string{"help", "version", "completion"} }

// TestFlagsOfDialect: package dialect's tests translate into the flags that there are.
func TestFlagsOfDialect(t *testing.T) {
	var b strings.Builder
	table := csv.NewWriter(&b)
	rows := [][]string{{"flag", "letter", "type", "value when alone"}}
	newRoot(nil).Flags().VisitAll(func(f *pflag.Flag) {
		rows = append(rows, []string{f.Name, f.Shorthand, f.Value.Type(), f.NoOptDefVal})
	})
	if err := table.WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../internal/cli/dialect/testdata/flags.csv", b.String())
}

// TestTranslationsParse gives the flag parser what package dialect makes of the launchers' command lines.
func TestTranslationsParse(t *testing.T) {
	text, err := os.ReadFile("../../internal/cli/dialect/testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split(string(text), "\n$ ")[1:] {
		args := strings.Fields(strings.Split(c, "\n")[1])
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "·", " ")
		}
		if flags, _ := flagSet(); !slices.Equal(args, []string{"version"}) {
			if err := flags.Parse(args); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
}

// TestTranslatedWordsParse checks that the flag parser reads what was meant.
func TestTranslatedWordsParse(t *testing.T) {
	for _, argv := range []string{
		"-np 4 -H a:2,b:2 -x A prog -np 9 --hosts no",
		"-np=4 -host a:2,b:2 -x=A prog -np 9 --hosts no",
		"--num-proc 4 --host=a:2,b:2 --export A -- prog -np 9 --hosts no",
		"-n4 -vHa:2,b:2 -xA prog -np 9 --hosts no",
		"--num_proc=4 -hosts=a:2,b:2 -x A prog -np 9 --hosts no",
	} {
		flags, o := flagSet()
		line, err := dialect.Translate(strings.Fields(argv), dialect.Own, flags, commands())
		if err == nil {
			err = flags.Parse(line.Args)
		}
		if err != nil {
			t.Errorf("%s: %v", argv, err)
			continue
		}
		if o.np != 4 || o.hosts != "a:2,b:2" || !slices.Equal(o.exports, []string{"A"}) || strings.Join(flags.Args(), " ") != "prog -np 9 --hosts no" {
			t.Errorf("%s: np %d, hosts %q, export %q, program %q", argv, o.np, o.hosts, o.exports, flags.Args())
		}
	}
}

// Settings of Open MPI in the environment count as flags that stand below the command line.
func TestOpenMPISettingsInTheEnvironment(t *testing.T) {
	environ := []string{
		"OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh", "OMPI_MCA_plm_rsh_args=-p 2222", "OMPI_MCA_btl_tcp_if_include=eth0", "PRTE_MCA_rmaps_default_mapping_policy=ppr:2:node", "OMPI_MCA_mca_base_env_list=A;B=1",
		"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile", "OMPI_MCA_orte_set_default_slots=2", "OMPI_MCA_orte_keep_fqdn_hostnames=true",
		"OMPI_MCA_pml=ob1", "OMPI_MCA_plm_base_verbose=5", "OMPI_MCA_orte_timestamp_output=1", "OMPI_COMM_WORLD_RANK=1", "PATH=/bin",
	}
	flags, o := flagSet()
	mca, err := dialect.EnvironmentSettings(environ, flags)
	if err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse([]string{"--ssh-port=7"}); err != nil {
		t.Fatal(err)
	}
	if err := setDefaults(flags, lookupIn(map[string]string{"GORUN_PPN": "5"}), mca.Args, fileOf(map[string]string{"network-interface": "eth9", "grace": "1"})); err != nil {
		t.Fatal(err)
	}
	if o.sshPort != 7 || o.ppn != 5 || o.network.String() != "eth0" || !slices.Equal(o.exports, []string{"A", "B=1"}) || o.hostfile != "" || o.grace.String() != "1s" || !o.timestamp ||
		o.rshAgent != "/etc/mpi/kubexec.sh" || !slices.Equal(o.rshArgs, []string{"-p 2222"}) {
		t.Errorf("%+v", *o)
	}
	if want := "ignored Open MPI settings: OMPI_MCA_plm_base_verbose=5"; mca.Notice() != want {
		t.Errorf("notice %q, want %q", mca.Notice(), want)
	}
	flags, _ = flagSet()
	mca, err = dialect.EnvironmentSettings([]string{"OMPI_MCA_odls_base_sigkill_timeout=soon"}, flags)
	if err == nil {
		err = setDefaults(flags, lookupIn(nil), mca.Args, settings{})
	}
	if !isUsage(err) || !strings.Contains(err.Error(), "soon") {
		t.Errorf("a value that makes no sense: %v", err)
	}
}
