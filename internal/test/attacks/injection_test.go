package attacks

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// injections are texts that run a program, or count as an option, where something passes them
// through a shell, a format or a command line. Each would make the file MARK.
func injections(mark string) []string {
	return []string{
		"-oProxyCommand=touch " + mark, "--rcfile=" + mark, "$(touch " + mark + ")", "`touch " + mark + "`",
		"a;touch " + mark, "a|touch " + mark, "a&touch " + mark + "&", "a\ntouch " + mark + "\n", "a'$(touch " + mark +
			")'", `a"$(touch ` + mark + `)"`,
		"\\$(touch " + mark + ")", "%h$(touch " + mark + ")", "${IFS}touch${IFS}" + mark, "!touch " + mark,
		"~/$(touch " + mark + ")", "\x1b]0;x\a$(touch " + mark + ")",
	}
}

// noMark fails if something has made the file.
func noMark(t *testing.T, mark string) {
	t.Helper()
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a text was run as a program")
		os.Remove(mark)
	}
}

// Text that is no host name is refused wherever hosts come from, or a configuration leads to, and
// nothing of it runs.
func TestHostsAreNoCommands(t *testing.T) {
	lab.Need(t, "ssh")
	c := lab.MustLoopback(t, lab.Specs(1)...)
	dir := t.TempDir()
	mark := filepath.Join(dir, "MARK")
	list := filepath.Join(dir, "list")
	config := must.Get(os.ReadFile(c.ConfigFile))(t)
	file := func(text string) string {
		t.Helper()
		must.OK(t, os.WriteFile(list, []byte(text), 0o600))
		return list
	}
	refused := func(evil string, env []string, args ...string) {
		t.Helper()
		r := command.StartIn(t, c, env, append(args, "true")...)
		code := r.Wait()
		check.That(t, code == 2 || code == 125, "%q in %q, %q: exit code %d: %s", evil, env, args, code, &r.Err)
		check.That(t, !strings.ContainsAny(r.Err.String(), "\x1b\a"), "%q: control bytes are printed: %q", evil, &r.Err)
		noMark(t, mark)
	}
	for _, evil := range injections(mark) {
		refused(evil, nil, "-H", evil)
		refused(evil, nil, "-H", evil+"@f1")
		refused(evil, nil, "--launcher", "system-ssh", "-H", "f1:1,"+evil)
		refused(evil, nil, "--hostfile", file(evil+" slots=1\n"))
		refused(evil, nil, "--hostfile", file("f1 user="+evil+" port="+evil+"\n"))
		refused(evil, []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=" + evil, "SLURM_NODELIST=" + evil,
			"SLURM_JOB_NUM_NODES=1", "SLURM_TASKS_PER_NODE=" + evil}, "--launcher", "ssh")
		refused(evil, []string{"GORUN_SSH_PORT=" + evil, "GORUN_HOSTFILE=" + evil}, "-np", "1")
		if strings.Contains(evil, "\n") {
			continue
		}
		// Names that the user's configuration substitutes for f1 never become words of a shell.
		for _, line := range []string{"HostName " + evil, "User " + evil, "HostName \"" + evil + "\"", "ProxyJump " +
			evil, "IdentityFile " + evil, "UserKnownHostsFile " + evil} {
			spoilt := filepath.Join(dir, "config")
			must.OK(t, os.WriteFile(spoilt, []byte("Host f1\n  "+line+"\n"+string(config)), 0o600))
			r := command.Start(t, nil, "-F", spoilt, "-H", "f1", "true")
			check.That(t, r.Wait() != 0 || strings.HasPrefix(line, "Identity") || strings.HasPrefix(line, "UserKnown"),
				"%q: it works", line)
			noMark(t, mark)
		}
	}
}

// What gorun itself prints holds nothing that a terminal obeys, hides or reorders, whatever file or
// variable it comes from.
func TestOwnOutputIsPlain(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[2J\u009b31m\x7f\u202ecod.exe\u2066\u2028\u200b\U000e0041"
	dir := t.TempDir()
	hosts := filepath.Join(dir, "hosts"+evil)
	folder := filepath.Join(dir, "folder"+evil)
	job := filepath.Join(dir, "job.yaml")
	must.OK(t, errors.Join(os.WriteFile(hosts, []byte("f1:2\n"), 0o600), os.Mkdir(folder, 0o700),
		os.WriteFile(job, []byte(fmt.Sprintf("prefix: %q\ncommand: [./absent, %q]\n", "[%r]"+evil, evil)),
			0o600)))
	env := []string{"EVIL" + evil + "=1"}
	for _, args := range [][]string{
		{"--dry-run", "--wdir", folder, "true", evil},
		{"--dry-run", "--json", "--wdir", folder, "true", evil},
		{"--dry-run", "--hostfile", hosts, "true"},
		{"--dry-run", "--json", "--hostfile", hosts, "true"},
		{"--dry-run", "--stage", folder, "-H", "f1", "true"},
		{"--dry-run", "--host-discovery-script", evil, "true"},
		{"--dry-run", "-np", "1", "true", evil, ":", "-np", "1", "--wdir", folder, "true"},
		{"hosts", "--hostfile", hosts},
		{"hosts", "--json", "--hostfile", hosts},
		{"hosts", "--host-discovery-script", evil},
		{"hosts", "--launch-agent", "/bin/sh " + evil, "-H", "f1"},
		{"--print-env-flags", "-x", "EVIL" + evil},
		{"help", evil},
		{"help", "compat", evil},
		{"completion", evil},
		{"--config-file", job},
		{"--" + evil, "true"},
		{"-np", "1", "-v", "--display-map", "--summary", filepath.Join(folder, "absent")},
		{"-np", "1", "--report-bindings", "--wdir", folder, "true"},
		{"-np", "1", "--prefix", "%p ", "sh", "-c", "echo hello"},
		{"-np", "1", "--prefix", evil + "%r ", "sh", "-c", "echo hello"},
		{"-np", "1", "--json-events", "fd:2", "sh", "-c", "exit 3", evil},
	} {
		r := command.StartIn(t, nil, env, args...)
		r.Wait()
		shown := r.Out.String() + r.Err.String()
		for _, c := range shown {
			if c != '\n' && c != '\t' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Errorf("gorun %q prints %q in %q", args, c, shown)
				break
			}
		}
	}
}

// transports lists the ways to hosts that pass a command through a shell.
func transports(t *testing.T, c *lab.Cluster) map[string][]string {
	return map[string][]string{"own": nil, "system-ssh": {"--launcher", "system-ssh"},
		"program": {"--launch-agent", sshScript(t, c)}}
}

// Arguments, variables, directories and files arrive whatever their names are.
func TestTextsOfTheUserAreNoCommands(t *testing.T) {
	lab.Need(t, "ssh")
	c := lab.MustLoopback(t, lab.Specs(1)...)
	base := t.TempDir()
	t.Chdir(base)
	const mark = "MARK" // where ranks start, or gorun does
	evil := injections(mark)
	env := []string{"E2E_A=" + strings.Join(evil, "")}
	for i, text := range evil {
		env = append(env, fmt.Sprintf("E2E%s%d=%s", strings.ReplaceAll(text, "=", ""), i, text))
	}
	name := strings.ReplaceAll(strings.Join(evil, " "), "/", "")
	name = name[:min(len(name), 250)]
	wdir := filepath.Join(base, name)
	must.OK(t, os.Mkdir(wdir, 0o755))
	for way, how := range transports(t, c) {
		t.Run(way, func(t *testing.T) {
			args := slices.Concat(how, []string{"--prefix", "none", "-H", "f1", "--wdir", wdir,
				"-x", "E2E_X=" + evil[2],
				"-x", "E2E_Y=" + evil[3], "--output-filename", filepath.Join(wdir, evil[2])},
				[]string{"sh", "-c", "cat /proc/$$/cmdline; pwd"}, evil)
			r := command.StartIn(t, c, env, args...).Want(0)
			want := "sh\x00-c\x00cat /proc/$$/cmdline; pwd\x00" + strings.Join(evil, "\x00") + "\x00" + wdir + "\n"
			check.That(t, r.Out.String() == want, "the rank has %q, want %q", &r.Out, want)
			r = command.StartIn(t, c, env, slices.Concat(how,
				[]string{"--prefix", "none", "-H", "f1", "--stage", wdir, "sh", "-c", "pwd"})...)
			check.That(t, r.Wait() == 0, "--stage: %s", &r.Err)
			for _, dir := range []string{base, wdir} {
				noMark(t, filepath.Join(dir, mark))
			}
		})
	}
	flags := []string{"--config-file", "--env-file", "--network-interface", "--launcher", "--stage-limit", "--hostfile",
		"--config"}
	for i, text := range evil {
		flag := flags[i%len(flags)]
		check.That(t, command.Start(t, c, flag, text, "-H", "f1", "true").Wait() != 0, "%s %q is taken", flag, text)
		noMark(t, mark)
	}
	command.Start(t, c, "-i", evil[2], "-i", evil[0], "-H", "f1", "true").Wait()
	noMark(t, mark)
}

// Every byte but NUL arrives in arguments, names and values of variables, and directories, on every
// transport.
func TestEveryByteArrives(t *testing.T) {
	lab.Need(t, "ssh")
	c := lab.MustLoopback(t, lab.Specs(1)...)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	text := func(most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			if b[i] = byte(1 + random.IntN(255)); random.IntN(3) == 0 {
				b[i] = "-'\"\\$`!*?[]{}()<>|&;~#%=^ \t\n\r"[random.IntN(29)]
			}
		}
		if string(b) == ":" {
			return "::" // one colon parts programs
		}
		return string(b)
	}
	for way, how := range transports(t, c) {
		t.Run(way, func(t *testing.T) {
			var argv, env []string
			for i := range 2000 {
				argv = append(argv, text(40))
				name := strings.ReplaceAll(text(20), "=", "")
				env = append(env, fmt.Sprintf("E2E_%d_%s_=%s", i, name, text(40)))
			}
			dir := filepath.Join(t.TempDir(), "w"+strings.ReplaceAll(text(100), "/", "")+"w")
			must.OK(t, os.Mkdir(dir, 0o755))
			args := slices.Concat(how, []string{"--prefix", "none", "-H", "f1", "--wdir", dir, "sh", "-c",
				"cat /proc/$$/cmdline; echo E2E-SEAM; cat /proc/$$/environ; readlink -n /proc/$$/cwd"}, argv)
			r := command.StartIn(t, c, env, args...).Want(0)
			cmdline, rest, _ := bytes.Cut(r.Out.Bytes(), []byte("\x00E2E-SEAM\n"))
			if got := strings.Split(string(cmdline), "\x00"); !slices.Equal(got[3:], argv) {
				t.Errorf("arguments differ: %d of %d", len(got)-3, len(argv))
			}
			got := strings.Split(string(rest), "\x00")
			check.Equal(t, got[len(got)-1], dir, "the rank starts in")
			for _, kv := range env {
				check.That(t, slices.Contains(got, kv), "%q has not arrived", kv)
			}
		})
	}
}

// sshScript returns a program that calls the real ssh.
func sshScript(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "remote")
	must.OK(t, os.WriteFile(script, []byte("#!/bin/sh\nssh -F "+c.ConfigFile+" \"$@\"\n"), 0o755))
	return script
}
