package pmi

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// sanitizedLimit bounds a program that a hostile answer may keep busy.
const sanitizedLimit = 10 * time.Second

// builtClient returns a program with libpmi.c, below AddressSanitizer and UBSan.
func builtClient(t *testing.T) string {
	t.Helper()
	lab.Need(t, "cc")
	program := filepath.Join(t.TempDir(), "client")
	must.Run(t, exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-D_GNU_SOURCE",
		"-fsanitize=address,undefined", "-fno-sanitize-recover", "-o", program, "testdata/ompi4.c",
		"ompi4/libpmi.c"))
	return program
}

// answered runs the client, whose requests get the answers by their command, and returns its
// output.
func answered(t *testing.T, program string, answers map[string]string, env ...string) string {
	t.Helper()
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	defer theirs.Close()
	file := os.NewFile(uintptr(pair[0]), "ours")
	ours, err := net.FileConn(file)
	file.Close()
	must.OK(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer ours.Close()
		for lines := bufio.NewScanner(ours); lines.Scan(); {
			command, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "cmd="), " ")
			if strings.Contains(lines.Text(), "PMI_process_mapping") {
				command = "mapping"
			}
			if _, err := ours.Write([]byte(answers[command])); err != nil || answers[command] == "" {
				return
			}
		}
	}()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = append([]string{"PMI_FD=3", "PMI_RANK=1", "PMI_SIZE=3"}, env...)
	late := time.AfterFunc(sanitizedLimit, func() { _ = cmd.Process.Kill() })
	out, err := cmd.CombinedOutput()
	late.Stop()
	theirs.Close()
	<-served
	check.That(t, err == nil && !strings.Contains(string(out), "runtime error"), "%v: %s", err, out)
	return string(out)
}

// The library for Open MPI 4 takes any answer in bounded time, and touches no memory that is not
// its own.
func TestLibraryTakesHostileAnswers(t *testing.T) {
	program := builtClient(t)
	honest := map[string]string{
		"init":              "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
		"get_my_kvsname":    "cmd=my_kvsname kvsname=kvs\n",
		"get_universe_size": "cmd=universe_size size=3\n",
		"get_appnum":        "cmd=appnum appnum=0\n",
		"put":               "cmd=put_result rc=0\n",
		"get":               "cmd=get_result rc=0 value=seven77\n",
		"mapping":           "cmd=get_result rc=0 value=(vector,(0,1,2),(1,1,1))\n",
		"barrier_in":        "cmd=barrier_out\n",
		"finalize":          "cmd=finalize_ack\n",
	}
	const want = "name 0 kvs\nuniverse 0 3\nappnum 0 0\nput 0\nget 0 seven77\nclique 0 2\nranks 0 0\nbarrier 0\n" +
		"finalize 0\n"
	must.Equal(t, answered(t, program, honest), want, "honest answers")
	hostile := func(command, answer string, env ...string) {
		answers := map[string]string{}
		for name, line := range honest {
			answers[name] = line
		}
		answers[command] = answer
		answered(t, program, answers, env...)
		must.That(t, !t.Failed(), "%s: %.80q, %v", command, answer, env)
	}
	for command := range honest {
		for _, answer := range []string{"", "\n", "cmd=\n", "\x00\n", strings.Repeat("x", 4095) + "\n",
			strings.Repeat("x", 9000), strings.TrimSuffix(honest[command], "\n") + strings.Repeat("x", 4200) + "\n"} {
			hostile(command, answer)
		}
	}
	for _, name := range []string{"", strings.Repeat("n", 8), strings.Repeat("n", 255), strings.Repeat("n", 256)} {
		hostile("get_my_kvsname", "cmd=my_kvsname kvsname="+name+"\n")
	}
	for _, value := range []string{"", "8 bytes.", strings.Repeat("v", 4000), "a\x00b"} {
		hostile("get", "cmd=get_result rc=0 value="+value+"\n")
	}
	for _, size := range []string{"-2147483648", "99999999999999999999", "x"} {
		hostile("get_universe_size", "cmd=universe_size size="+size+"\n")
	}
	for _, mapping := range []string{
		"", "(vector)", "(vector,(", "(vector,(0,1,0))", "(vector,(0,0,1))", "(vector,(0,-1,1))", "(vector,(0,1,-1))",
		"(vector,(-1,3,1))", "(vector,(2147483647,3,1))", "(vector,(0,2147483647,0))", "(vector,(0,2147483647,1))",
		"(vector,(0,1,2147483647))", "(vector,(0,1,1))", "(vector" + strings.Repeat(",(0,1,1)", 4) + ")",
	} {
		hostile("mapping", fmt.Sprintf("cmd=get_result rc=0 value=%s\n", mapping))
	}
	for _, env := range []string{"PMI_SIZE=-1", "PMI_SIZE=0", "PMI_RANK=-1", "PMI_RANK=7"} {
		hostile("get", honest["get"], env)
	}
}
