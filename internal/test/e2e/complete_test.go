package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/environ"

	"github.com/gorun/gorun/internal/test/lab"
)

// TestCompletions asks for completions as the shells' scripts do.
func TestCompletions(t *testing.T) {
	environ.Quiet(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "ssh_config")
	if err := os.WriteFile(config, []byte("Host f1 f2\nHost *.lab\nHost gpu1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "trainer"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"GORUN_SSH_CONFIG=" + config, "PATH=" + dir, "E2E_ONE=1"}
	const files, none, noSpace, folders = ":0", ":4", ":6", ":16"
	for _, tc := range []struct {
		words     []string
		want      string // some of the answers, in order
		directive string
	}{
		{[]string{""}, "bench compat completion gpus help hosts man version", files},
		{[]string{"tra"}, "trainer", files},
		{[]string{"./"}, "", files},
		{[]string{"-np", "4", "trainer", "--pre"}, "", files},
		{[]string{"-np", "4", "--pre"}, "--prefix", none},
		{[]string{"-np", "4", "--prefix", ""}, "host rank horovod mpirun none", none},
		{[]string{"--launcher", ""}, "auto ssh srun local", none},
		{[]string{"--gpus-per-rank", ""}, "auto none 1", none},
		{[]string{"--color", ""}, "auto always never", none},
		{[]string{"--host-keys", ""}, "strict accept-new", none},
		{[]string{"--dialect", ""}, "gorun mpirun mpiexec.hydra horovodrun srun torchrun", none},
		{[]string{"-np", ""}, "", none},
		{[]string{"-np", "2", "-H", ""}, "f1 f2 gpu1", noSpace},
		{[]string{"-H", "f1:2,f"}, "f1:2,f2", noSpace},
		{[]string{"-H", "ada@g"}, "ada@gpu1", noSpace},
		{[]string{"-F", "/no/such", "-H", ""}, "", noSpace},
		{[]string{"-x", "E2E_O"}, "E2E_ONE", none},
		{[]string{"--hostfile", ""}, "", files},
		{[]string{"--wdir", ""}, "", folders},
		{[]string{"bench", "allr"}, "allreduce", none},
		{[]string{"bench", "allreduce", "-np", "4", "--transport", ""}, "auto shm tcp", none},
		{[]string{"compat", "s"}, "srun", none},
		{[]string{"--no-such-flag", ""}, "", files},
	} {
		r := startIn(t, nil, env, append([]string{"__completeNoDesc"}, tc.words...)...).want(0)
		lines := r.lines()
		last := len(lines) - 1
		var got []string
		for _, line := range lines[:last] {
			if strings.HasPrefix(line, tc.words[len(tc.words)-1]) { // the scripts drop what does not
				got = append(got, line)
			}
		}
		if strings.Join(got, " ") != tc.want || lines[last] != tc.directive {
			t.Errorf("%q: %q, want %s %s", tc.words, lines, tc.want, tc.directive)
		}
	}
}

// Real shells load the scripts and complete with them.
func TestCompletionInShells(t *testing.T) {
	lab.Need(t, "bash")
	const bash = `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
__ltrim_colon_completions() { :; }
source <(gorun completion bash)
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMPREPLY=(); __start_gorun 2>/dev/null; echo "${COMPREPLY[@]}"; }
ask gorun -np 4 --prefix h
ask gorun -np 4 --hostf
ask gorun bench allr
complete -p gorun >/dev/null && echo loaded`
	for _, tc := range []struct{ shell, script, want string }{
		{"bash", bash, "host\nhorovod\n--hostfile\nallreduce\nloaded\n"},
		{"zsh", `autoload -U compinit && compinit -u -D; source <(gorun completion zsh); print $_comps[gorun]`, "_gorun\n"},
		{"fish", `gorun completion fish | source; complete -C "gorun -np 4 --launcher s" | cut -f1`, "srun\nssh\n"},
	} {
		t.Run(tc.shell, func(t *testing.T) {
			lab.Need(t, tc.shell)
			ctx, cancel := context.WithTimeout(t.Context(), runLimit)
			defer cancel()
			cmd := exec.CommandContext(ctx, tc.shell, "-c", tc.script)
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary("gorun"))+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
			cmd.WaitDelay = 5 * time.Second
			out, err := cmd.Output()
			got, want := strings.Fields(string(out)), strings.Fields(tc.want)
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v: %q, want %q", err, out, tc.want)
			}
		})
	}
}
