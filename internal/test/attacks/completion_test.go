package attacks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// In bash, a user presses the key twice. The first time bash inserts what all candidates begin
// with, the second time it lists them. The first three functions stand in for the package
// bash-completion.
const twiceInBash = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=; }
__ltrim_colon_completions() { :; }
_filedir() { :; }
source <(gorun completion bash)
press() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMP_LINE="$*"; COMP_TYPE=9; COMPREPLY=(); __start_gorun; }
press gorun report ''
inserted=${COMPREPLY[0]-}
for candidate in "${COMPREPLY[@]}"; do
	while [[ $candidate != "$inserted"* ]]; do inserted=${inserted%?}; done
done
press gorun report "$inserted"
press gorun report "$inserted" ''
`

// In fish, the second word is a file's name, which fish quotes, and the next word is completed.
const nextInFish = `gorun completion fish | source
complete -C "gorun cat "(string escape -n -- $argv[1])" x"`

// Another user has given a file or folder the name of a command, and the user completes a line
// there.
func TestCompletionRunsNoNames(t *testing.T) {
	lab.Need(t, "bash", "fish")
	path := filepath.Dir(command.Binary("gorun")) + ":" + os.Getenv("PATH")
	for _, evil := range injections("MARK") {
		dir := t.TempDir()
		evil = strings.ReplaceAll(evil, "/", "")
		for _, end := range []string{"1", "2"} {
			folder := filepath.Join(dir, evil+end)
			must.OK(t, os.Mkdir(folder, 0o700))
			must.OK(t, os.WriteFile(filepath.Join(folder, "run.json"), []byte("{}"), 0o600))
		}
		for _, argv := range [][]string{{"bash", "-c", twiceInBash}, {"fish", "--no-config", "-c", nextInFish, evil}} {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "PATH="+path)
			said, _ := cmd.CombinedOutput()
			noMark(t, filepath.Join(dir, "MARK"))
			if t.Failed() {
				t.Fatalf("%s, %q: %s", argv[0], evil, said)
			}
		}
	}
}
