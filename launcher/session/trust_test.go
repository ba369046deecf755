package session

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// home makes a directory with the files of a test, owned by the user.
func home(t *testing.T, make func(root string) error) string {
	t.Helper()
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.Chmod(root, 0o755)
	}
	if err == nil {
		err = make(root)
	}
	must.OK(t, err)
	return root
}

const program = "#!/bin/sh\ncd \"$" + wire.StartDirectory + "\" && echo ran $1 in $PWD\n"

// inCache is the program's place in the cache of a home.
const inCache = ".cache/gorun/0123456789abcdef/gorun"

func put(path string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		return err
	}
	return os.Chmod(path, mode) // whatever the umask
}

// putInCache also says what is there, as an upload does.
func putInCache(path string, mode os.FileMode) error {
	mark := fmt.Sprintf("launch %x\n", sha256.Sum256([]byte(program)))
	return errors.Join(put(path, mode), os.WriteFile(filepath.Join(filepath.Dir(path), "checked"), []byte(mark), 0o600))
}

func TestStartScriptRunsOnlyWhatNobodyElseCanChange(t *testing.T) {
	must.HaveTime(t)
	asRoot := os.Getuid() == 0
	for _, tc := range []struct {
		name string
		file string // below the home; "" for the cache
		make func(root string) error
		code int
		root bool // only root can make this
	}{
		{name: "own file", file: "bin/gorun", make: func(r string) error { return put(r+"/bin/gorun", 0o755) }},
		{name: "names that shells might take for more", file: "a b/$(touch MARK)/-c;*/gorun",
			make: func(r string) error { return put(r+"/a b/$(touch MARK)/-c;*/gorun", 0o755) }},
		{name: "nothing", file: "bin/gorun", make: func(r string) error { return os.Mkdir(r+"/bin", 0o755) }, code: 85},
		{name: "no directory", file: "bin/gorun", make: func(r string) error { return nil }, code: 85},
		{name: "no program", file: "bin/gorun", make: func(r string) error {
			return put(r+"/bin/gorun", 0o644)
		}, code: 85},
		{name: "a private group may write", file: "bin/gorun", make: func(r string) error {
			return errors.Join(put(r+"/bin/gorun", 0o775), os.Chmod(r+"/bin", 0o775),
				os.Chown(r+"/bin", os.Getuid(), os.Getuid()))
		}},
		{name: "another group may write", root: true, file: "bin/gorun", code: 83, make: func(r string) error {
			return errors.Join(put(r+"/bin/gorun", 0o755), os.Chmod(r+"/bin", 0o775), os.Chown(r+"/bin", 0, 100))
		}},
		{name: "all may write", file: "bin/gorun", code: 83, make: func(r string) error {
			return put(r+"/bin/gorun", 0o757)
		}},
		{name: "all may write the directory", file: "bin/gorun", code: 83, make: func(r string) error {
			return errors.Join(put(r+"/bin/gorun", 0o755), os.Chmod(r+"/bin", 0o777))
		}},
		{name: "a directory further up", file: "a/b/gorun", code: 83, make: func(r string) error {
			return errors.Join(put(r+"/a/b/gorun", 0o755), os.Chmod(r+"/a", 0o757))
		}},
		{name: "below a sticky directory", file: "tmp/a/gorun", make: func(r string) error {
			return errors.Join(put(r+"/tmp/a/gorun", 0o755), os.Chmod(r+"/tmp", 0o777|os.ModeSticky))
		}},
		// see mine in trust.sh
		{name: "in a sticky directory", file: "tmp/gorun", code: 83, make: func(r string) error {
			return errors.Join(put(r+"/tmp/gorun", 0o755), os.Chmod(r+"/tmp", 0o777|os.ModeSticky))
		}},
		{name: "in a sticky directory of the user alone", file: "tmp/gorun", make: func(r string) error {
			return errors.Join(put(r+"/tmp/gorun", 0o755), os.Chmod(r+"/tmp", 0o755|os.ModeSticky))
		}},
		{name: "a stranger's file in a sticky directory", root: true, file: "tmp/gorun", code: 83,
			make: func(r string) error {
				return errors.Join(put(r+"/tmp/gorun", 0o755), os.Chmod(r+"/tmp", 0o777|os.ModeSticky),
					os.Chown(r+"/tmp/gorun", 65534, 65534))
			}},
		{name: "a stranger's directory", root: true, file: "a/gorun", code: 83, make: func(r string) error {
			return errors.Join(put(r+"/a/gorun", 0o755), os.Chown(r+"/a", 65534, 65534))
		}},
		{name: "a link to a file", file: "gorun", code: 83, make: func(r string) error {
			return errors.Join(put(r+"/a/gorun", 0o755), os.Symlink("a/gorun", r+"/gorun"))
		}},
		{name: "a link to a safe directory", file: "bin/gorun", make: func(r string) error {
			return errors.Join(put(r+"/a/gorun", 0o755), os.Symlink("a", r+"/bin"))
		}},
		{name: "a link to an unsafe directory", file: "bin/gorun", code: 83, make: func(r string) error {
			return errors.Join(put(r+"/a/gorun", 0o755), os.Symlink("a", r+"/bin"), os.Chmod(r+"/a", 0o777))
		}},
		{name: "a line break that says all is well", file: "a\n-rwxr-xr-x 1 0 0 1 a 1 1 x/gorun", code: 83,
			make: func(r string) error {
				return put(r+"/a\n-rwxr-xr-x 1 0 0 1 a 1 1 x/gorun", 0o755)
			}},
		{name: "the cache", make: func(r string) error { return putInCache(r+"/"+inCache, 0o500) }},
		{name: "a cache that others can write", code: 83, make: func(r string) error {
			return errors.Join(putInCache(r+"/"+inCache, 0o500), os.Chmod(filepath.Dir(r+"/"+inCache), 0o777))
		}},
		{name: "a home that others can write", code: 85, make: func(r string) error {
			return errors.Join(putInCache(r+"/"+inCache, 0o500), os.Chmod(r, 0o777))
		}},
		{name: "a cache with another file", code: 85, make: func(r string) error {
			return errors.Join(putInCache(r+"/"+inCache, 0o755),
				os.WriteFile(r+"/"+inCache, []byte("#!/bin/sh\necho ran what nobody sent\n"), 0))
		}},
		{name: "a cache with a newer time", make: func(r string) error {
			return errors.Join(putInCache(r+"/"+inCache, 0o700), os.Chmod(r+"/"+inCache, 0o500))
		}},
		{name: "a cache without a mark", code: 85, make: func(r string) error { return put(r+"/"+inCache, 0o500) }},
		{name: "a cache with an empty mark", code: 85, make: func(r string) error {
			return errors.Join(put(r+"/"+inCache, 0o500),
				os.WriteFile(filepath.Dir(r+"/"+inCache)+"/checked", []byte("launch \n"), 0o600))
		}},
		{name: "the runtime directory", make: func(r string) error {
			return putInCache(r+"/run"+strings.TrimPrefix(inCache, ".cache"), 0o500)
		}},
		{name: "the cache where nothing is installed", file: "bin/gorun", make: func(r string) error {
			return putInCache(r+"/"+inCache, 0o500)
		}},
		{name: "the cache where what is installed is not safe", file: "bin/gorun", make: func(r string) error {
			return errors.Join(put(r+"/bin/gorun", 0o757), putInCache(r+"/"+inCache, 0o500))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.root && !asRoot {
				lab.Skip(t, "needs root")
			}
			root := home(t, tc.make)
			path := ""
			if tc.file != "" {
				path = filepath.Join(root, tc.file)
			}
			for _, shell := range []string{"sh", "bash", "zsh"} {
				if _, err := exec.LookPath(shell); err != nil {
					t.Run(shell, func(t *testing.T) { lab.Skip(t, "needs "+shell) })
					continue
				}
				args := []string{"-c", startScript(), "gorun-start", path, inCache, "a b"}
				if shell == "zsh" {
					args = append([]string{"--emulate", "sh"}, args...)
				}
				cmd := exec.CommandContext(t.Context(), shell, args...)
				cmd.Dir = root
				cmd.Env = []string{"HOME=" + root, "XDG_RUNTIME_DIR=" + root + "/run", "PATH=" + os.Getenv("PATH")}
				var out, stderr bytes.Buffer
				cmd.Stdout = &out
				cmd.Stderr = &stderr
				_ = cmd.Run()
				code := cmd.ProcessState.ExitCode()
				check.That(t, code == tc.code && (tc.code == 0) == (out.String() == "ran a b in "+root+"\n"),
					"%s: exit status %d, want %d; %q, %s", shell, code, tc.code, &out, &stderr)
				check.That(t, tc.code == 0 || strings.Contains(stderr.String(),
					map[int]string{83: "others can change ", 85: "not found"}[tc.code]), "%s: says %q", shell, &stderr)
				marks, _ := filepath.Glob(root + "/MARK")
				check.That(t, marks == nil, "%s: a name was run", shell)
			}
		})
	}
}

// The scripts go to folders before they have judged them. They take no commands from there, and
// gorun gets PATH as it was.
func TestScriptsTakeNoCommandsOfTheirFolders(t *testing.T) {
	path := ".:" + os.Getenv("PATH") + "::bin"
	root := home(t, func(r string) error {
		return errors.Join(put(r+"/shared/gorun", 0o757), putInCache(r+"/"+inCache, 0o500),
			os.MkdirAll(r+"/cd/.cache/gorun", 0o777), os.Mkdir(r+"/own", 0o755),
			os.WriteFile(r+"/own/gorun", []byte("#!/bin/sh\necho with $PATH\n"), 0o755))
	})
	for _, folder := range []string{".", "shared", ".cache/gorun", filepath.Dir(inCache)} {
		for _, name := range []string{"ls", "grep", "stat", "id", "sha256sum", "cat", "gzip", "mkdir", "uname"} {
			decoy := filepath.Join(root, folder, name)
			must.OK(t, os.WriteFile(decoy, []byte("#!/bin/sh\n>"+root+"/MARK\n"), 0o755))
		}
	}
	run := func(script string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", script}, args...)...)
		cmd.Dir = root
		cmd.Env = []string{"HOME=" + root, "PATH=" + path, "CDPATH=" + root + "/cd"}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	said := run(startScript(), "gorun-start", root+"/shared/gorun", inCache, "a b")
	check.That(t, strings.HasSuffix(said, "\nran a b in "+root+"\n"), "the start script says %q", said)
	check.Equal(t, run(startScript(), "gorun-start", root+"/own/gorun", ""), "with "+path+"\n")
	said = run(uploadScript(), "gorun-put", "fedcba", "mark", "gorun", "0", "", "sum")
	check.That(t, strings.Contains(said, "mark:go\n"), "the upload script says %q", said)
	check.Error(os.Stat(root+"/MARK")).Is(t, os.ErrNotExist)
}

// Variables of the account that change what commands say do not change what is safe. gorun gets
// them as they were.
func TestVariablesOfTheAccountDoNotMisleadScripts(t *testing.T) {
	root := home(t, func(r string) error {
		return errors.Join(put(r+"/tmp/gorun", 0o755), os.Chmod(r+"/tmp", 0o777|os.ModeSticky),
			os.Mkdir(r+"/own", 0o755), os.WriteFile(r+"/own/gorun", []byte("#!/bin/sh\nprintenv $1\n"), 0o755),
			putInCache(r+"/home/"+inCache, 0o755),
			os.WriteFile(r+"/home/"+inCache, []byte("#!/bin/sh\necho ran what nobody sent\n"), 0))
	})
	for _, variable := range []string{
		"TIME_STYLE=long-iso", "TIME_STYLE=+", "TIME_STYLE=+a b c d", "TIME_STYLE=none", "QUOTING_STYLE=c",
		"QUOTING_STYLE=shell-always", "BLOCK_SIZE=human-readable", "LS_BLOCK_SIZE=1", "POSIXLY_CORRECT=1",
		"LC_ALL=C.UTF-8", "GREP_OPTIONS=-v", "TZ=a b c", "GZIP=-l",
	} {
		name, value, _ := strings.Cut(variable, "=")
		run := func(path, cached string) (int, string) {
			args := []string{"-c", startScript(), "gorun-start", path, cached, name}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", args...)
			cmd.Dir = root
			cmd.Env = []string{"HOME=" + root + "/home", "PATH=" + os.Getenv("PATH"), variable}
			out, _ := cmd.Output()
			return cmd.ProcessState.ExitCode(), string(out)
		}
		code, said := run(root+"/tmp/gorun", "")
		check.That(t, code == codeUnsafe && said == "", "%s: in a sticky directory: %d, %q", variable, code, said)
		code, said = run("", inCache)
		check.That(t, code == codeAbsent && said == "", "%s: of another content: %d, %q", variable, code, said)
		code, said = run(root+"/own/gorun", "")
		check.That(t, code == 0 && strings.TrimSpace(said) == value, "%s: exit status %d, %q", variable, code, said)
	}
}

// The scripts load no library from the folders that they check, where the linker's variables have
// an empty or relative entry. gorun gets them as they were.
func TestScriptsTakeNoLibrariesOfTheirFolders(t *testing.T) {
	root := home(t, func(r string) error {
		return errors.Join(put(r+"/shared/gorun", 0o757), putInCache(r+"/"+inCache, 0o500), os.Mkdir(r+"/own", 0o755),
			os.WriteFile(r+"/own/gorun", []byte("#!/bin/sh\nprintenv $1\n"), 0o755))
	})
	for _, folder := range []string{".", "shared", ".cache/gorun"} { // a command that finds it there fails
		must.OK(t, os.WriteFile(filepath.Join(root, folder, "libc.so.6"), []byte("of another user"), 0o644))
	}
	for _, variable := range []string{"LD_LIBRARY_PATH=:/none", "LD_LIBRARY_PATH=.", "LD_PRELOAD=", "LD_AUDIT="} {
		name, value, _ := strings.Cut(variable, "=")
		run := func(script string, args ...string) (said, failed string) {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", script}, args...)...)
			cmd.Dir = "/"
			cmd.Env = []string{"HOME=" + root, "PATH=" + os.Getenv("PATH"), variable}
			var errs strings.Builder
			cmd.Stderr = &errs
			out, _ := cmd.Output()
			return string(out), errs.String()
		}
		said, failed := run(startScript(), "gorun-start", root+"/shared/gorun", inCache, "a b")
		check.That(t, said == "ran a b in /\n" && strings.Contains(failed, "not safe") &&
			!strings.Contains(failed, "libc"), "%s: the start script says %q, %q", variable, said, failed)
		said, _ = run(startScript(), "gorun-start", root+"/own/gorun", "", name)
		check.Equal(t, said, value+"\n", variable)
		said, failed = run(uploadScript(), "gorun-put", "fedcba"+name, "mark", "gorun", "0", "", "sum")
		check.That(t, strings.Contains(said, "mark:go\n") && !strings.Contains(failed, "libc"),
			"%s: the upload script says %q, %q", variable, said, failed)
	}
}

// Where other users write, no command gets a variable by which it would load their files.
func TestScriptsGiveNoVariablesToCommandsInSharedFolders(t *testing.T) {
	root := home(t, func(r string) error {
		return errors.Join(os.Mkdir(r+"/bin", 0o755), os.Mkdir(r+"/shared", 0),
			os.Chmod(r+"/shared", 0o777|os.ModeSticky))
	})
	for _, name := range []string{"ls", "grep", "mkdir", "gzip"} {
		path := must.Get(exec.LookPath(name))(t)
		text := fmt.Sprintf("#!/bin/sh\n[ \"$PWD:$GCONV_PATH\" != %s/shared:: ] || echo %s >>%s/got\nexec %s \"$@\"\n",
			root, name, root, path)
		must.OK(t, os.WriteFile(filepath.Join(root, "bin", name), []byte(text), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", uploadScript(), "gorun-put", "fedcba", "mark", "gorun",
		"1", "", "sum")
	cmd.Dir = root
	cmd.Env = []string{"HOME=/none", "XDG_RUNTIME_DIR=" + root + "/shared",
		"PATH=" + root + "/bin:" + os.Getenv("PATH"), "GCONV_PATH=:"}
	out, _ := cmd.Output()
	check.That(t, strings.Contains(string(out), "mark:go\n"), "the upload script says %q", out)
	got, err := os.ReadFile(root + "/got")
	check.That(t, os.IsNotExist(err), "these get GCONV_PATH: %s", got)
}

// The scripts pass through login shells that disagree about these.
func TestScriptsNeedNoQuoting(t *testing.T) {
	for _, script := range []string{startScript(), uploadScript()} {
		if at := strings.IndexAny(script, "'\\!\n"); at >= 0 {
			t.Errorf("%q", script[at:])
		}
	}
}
