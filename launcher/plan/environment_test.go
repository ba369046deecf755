package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestForwardEnv(t *testing.T) {
	tests := []struct {
		name             string
		environ, exports []string
		set, withheld    []string
		warnings         int
	}{
		{name: "nothing"},
		{name: "ordinary names go, in order",
			environ: []string{"PATH=/bin", "A=1", "EMPTY=", "LANG=C.UTF-8"},
			set:     []string{"A=1", "EMPTY=", "LANG=C.UTF-8", "PATH=/bin"}},
		{name: "values keep every byte",
			environ: []string{"A=x=y\n\xff \t", "B== ="},
			set:     []string{"A=x=y\n\xff \t", "B== ="}},
		{name: "what has no name does not go",
			environ: []string{"=C:=x", "nonsense", "", "A=1"},
			set:     []string{"A=1"}},
		{name: "the last of two values counts, as in a shell",
			environ: []string{"A=1", "B=2", "A=3"},
			set:     []string{"A=3", "B=2"}},
		{name: "what belongs to this host stays",
			environ: []string{"HOME=/root", "USER=u", "PWD=/x", "OLDPWD=/", "SHLVL=1", "_=/usr/bin/env", "HOSTNAME=h",
				"TMPDIR=/t", "DISPLAY=:0",
				"TERM=xterm", "SSH_AUTH_SOCK=/s", "SSH_CONNECTION=a b c d", "XDG_RUNTIME_DIR=/run/user/0",
				"DBUS_SESSION_BUS_ADDRESS=x",
				"LD_PRELOAD=/x.so", "BASH_ENV=/e", "ENV=/e", "CUDA_VISIBLE_DEVICES=0", "SUDO_USER=u", "GIT_DIR=/g",
				"KUBECONFIG=/k"}},
		{name: "shell functions stay",
			environ: []string{"BASH_FUNC_module%%=() { eval `x`; }", "BASH_FUNC_f()=() { :; }"}},
		{name: "what another launcher set stays",
			environ: []string{"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "OMPI_COMM_WORLD_RANK=3", "PMI_RANK=1",
				"PMIX_NAMESPACE=x",
				"SLURM_PROCID=1", "HOROVOD_RANK=0", "MASTER_ADDR=10.0.0.1", "TORCHELASTIC_RUN_ID=1", "GORUN_RANK=0",
				"GORUN_TOKEN=t", "GORUN_NP=4"}},
		{name: "tuning of libraries goes",
			environ: []string{"HOROVOD_TIMELINE=t", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=4", "SLURM_JOB_ID=7",
				"LD_LIBRARY_PATH=/l", "PYTHONPATH=/p"},
			set: []string{"HOROVOD_TIMELINE=t", "LD_LIBRARY_PATH=/l", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=4",
				"PYTHONPATH=/p", "SLURM_JOB_ID=7"}},
		{name: "secrets are withheld and named, in the order they come",
			environ: []string{"HF_TOKEN=t", "wandb_api_key=k", "DB_PASSWORD=p", "MYSQL_PASSWD=p", "CLIENT_SECRET_2=s",
				"GOOGLE_APPLICATION_CREDENTIALS=/c",
				"AWS_PROFILE=x", "GH_PAT=p", "MYAPIKEY=k", "A=1"},
			set: []string{"A=1"},
			withheld: []string{"HF_TOKEN", "wandb_api_key", "DB_PASSWORD", "MYSQL_PASSWD", "CLIENT_SECRET_2",
				"GOOGLE_APPLICATION_CREDENTIALS",
				"AWS_PROFILE", "GH_PAT", "MYAPIKEY"}},
		{name: "names that only look a little like secrets go",
			environ: []string{"KEYBOARD=de", "TOKENIZERS_PARALLELISM=false", "COMPAT=1", "PATTERN=x"},
			set:     []string{"COMPAT=1", "KEYBOARD=de", "PATTERN=x", "TOKENIZERS_PARALLELISM=false"}},
		{name: "-x sends anything by name",
			environ: []string{"HF_TOKEN=t", "HOME=/root", "RANK=3", "A=1"},
			exports: []string{"HF_TOKEN", "HOME", "RANK", "A"},
			set:     []string{"A=1", "HF_TOKEN=t", "HOME=/root", "RANK=3"}},
		{name: "-x with a value wins over the environment, and the last over the first",
			environ: []string{"A=1"}, exports: []string{"A=2", "B=", "C=x=y", "B=3"},
			set: []string{"A=2", "B=3", "C=x=y"}},
		{name: "-x PREFIX* sends secrets too, but not another launcher's names",
			environ: []string{"AWS_KEY_ID=k", "AWS_REGION=r", "PMI_RANK=1", "PMI=1"}, exports: []string{"AWS_*", "PM*"},
			set: []string{"AWS_KEY_ID=k", "AWS_REGION=r", "PMI=1"}},
		{name: "-x * sends no more than is sent anyway, and says what stays",
			environ: []string{"A=1", "HOME=/root", "LD_PRELOAD=/x", "DB_PASS=p", "MYSQL_PWD=p", "SHELLOPTS=x",
				"PS4=$(x)"}, exports: []string{"*"},
			set: []string{"A=1"}, withheld: []string{"DB_PASS", "MYSQL_PWD"}},
		{name: "-x of a name that is not set warns",
			exports: []string{"NOPE"}, warnings: 1},
		{name: "-x of an empty variable sends it",
			environ: []string{"EMPTY="}, exports: []string{"EMPTY"}, set: []string{"EMPTY="}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			env := must.Get(ForwardEnv(tc.environ, tc.exports))(t)
			check.That(t, slices.Equal(env.Set, tc.set), "set %q, want %q", env.Set, tc.set)
			check.That(t, slices.Equal(env.Withheld, tc.withheld), "withheld %q, want %q", env.Withheld, tc.withheld)
			check.That(t, len(env.Warnings) == tc.warnings, "warnings %q, want %d", env.Warnings, tc.warnings)
		})
	}
}

func TestForwardEnvRefusesNonsense(t *testing.T) {
	for _, x := range []string{"", "=1"} {
		check.Error(ForwardEnv(nil, []string{x})).Any(t, "-x", x, "was taken")
	}
}

// FuzzForwardEnv checks that nothing is invented, nothing goes twice, all is in one order, and no
// secret or name of this host goes unasked.
func FuzzForwardEnv(f *testing.F) {
	f.Add("A=1\x00HF_TOKEN=x\x00BASH_FUNC_f%%=() {\n}", "A\x00HF_*")
	f.Add("=x\x00\x00A=1\x00A=2", "B=2\x00=\x00*")
	f.Fuzz(func(t *testing.T, environ, exports string) {
		var words []string
		if exports != "" {
			words = strings.Split(exports, "\x00")
		}
		inherited := strings.Split(environ, "\x00")
		env, err := ForwardEnv(inherited, words)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		last := ""
		for _, kv := range env.Set {
			name, value, ok := strings.Cut(kv, "=")
			must.That(t, ok && name != "" && !seen[name], "%q is malformed or goes twice", kv)
			seen[name] = true
			must.That(t, last < kv, "%q comes after %q", kv, last)
			last = kv
			must.That(t, slices.Contains(inherited, kv) || slices.Contains(words, kv), "%q was never set", kv)
			must.That(t, len(words) != 0 || !hostBound(name) && !secret(name, value), "%q went unasked", name)
		}
		for _, name := range env.Withheld {
			must.That(t, !seen[name], "%q is withheld and sent", name)
		}
	})
}
