// Singularity runs a program "in" an image, which is a folder, in namespaces of its own: only its
// processes, its environment, its signals and its exit code are those of Apptainer 1.5, as written
// in internal/pkg/util/env/create.go there. Under the name docker it obeys docker's rules instead.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// options are what may stand before the image.
type options struct {
	clean, nv bool
	alone     bool // the program has a process 1 of its own
	env       []string
}

// initWord makes this program process 1 of a container.
const initWord = "__init"

func main() {
	if len(os.Args) > 2 && os.Args[0] == initWord {
		os.Exit(run(os.Args[1], os.Args[2:], os.Environ(), inherited(), nil))
	}
	name := filepath.Base(os.Args[0])
	o, words, err := parse(name, os.Args[1:])
	if err != nil {
		fatal(err)
	}
	image := words[0]
	command := words[1:]
	if info, err := os.Stat(image); err != nil || !info.IsDir() {
		fatal(fmt.Errorf("While checking container encryption: could not open image %s: failed to retrieve path for "+
			"%[1]s: lstat %[1]s: no such file or directory", image))
	}
	env := dockerEnv(os.Environ(), o)
	if name != "docker" {
		env = containerEnv(os.Environ(), o)
	}
	program, err := find(image, command[0])
	if err != nil {
		fatal(err)
	}
	var files []*os.File
	if name != "docker" {
		files = inherited()
	}
	env = append(env, "PATH="+standardPath)
	flags := uintptr(syscall.CLONE_NEWNS)
	if o.alone {
		command = append([]string{initWord, program}, command...)
		program = "/proc/self/exe"
		flags |= syscall.CLONE_NEWPID
	}
	os.Exit(run(program, command, env, files, namespaces(flags)))
}

// namespaces returns the attributes of a program in namespaces, which need another one unless this
// is root.
func namespaces(flags uintptr) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: flags}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return a
}

func fatal(err error) {
	fmt.Fprintf(os.Stderr, "FATAL:   %v\n", err)
	os.Exit(255)
}

// parse reads the options of exec; those it does not know are errors.
func parse(name string, args []string) (o options, words []string, err error) {
	want := "exec"
	if name == "docker" {
		want = "run"
	}
	if len(args) == 0 || args[0] != want {
		return o, nil, fmt.Errorf("%q: only %s is there", args, want)
	}
	args = args[1:]
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		option := args[0]
		args = args[1:]
		switch {
		case name != "docker" && (option == "--cleanenv" || option == "-e"):
			o.clean = true
		case name != "docker" && (option == "--containall" || option == "--pid"):
			o.alone = true
			o.clean = o.clean || option == "--containall"
		case name != "docker" && option == "--nv":
			o.nv = true
		case name == "docker" && (option == "--rm" || option == "--init" || option == "--network=host" ||
			option == "--ipc=host"):
		case option == "--env", name == "docker" && option == "-e":
			o.env = append(o.env, args[0])
			args = args[1:]
		default:
			return o, nil, fmt.Errorf("unknown flag: %s", option)
		}
	}
	if len(args) < 2 {
		return o, nil, errors.New("requires an image and a program")
	}
	return o, args, nil
}

// dockerEnv is what -e names, and nothing else.
func dockerEnv(environ []string, o options) (env []string) {
	for _, word := range o.env {
		if strings.Contains(word, "=") {
			env = append(env, word)
		} else if value, set := lookup(environ, word); set {
			env = append(env, word+"="+value)
		}
	}
	return append(env, "HOME=/root")
}

// containerEnv is the environment of Apptainer's containers, and prints what it says of it.
func containerEnv(environ []string, o options) []string {
	inside := map[string]string{}
	for _, kv := range environ {
		key, legacy := strings.CutPrefix(kv, "SINGULARITYENV_")
		name, value, _ := strings.Cut(key, "=")
		switch preferred, set := lookup(environ, "APPTAINERENV_"+name); {
		case !legacy:
		case set && preferred != value:
			fmt.Fprintf(os.Stderr, "WARNING: SINGULARITYENV_%s and APPTAINERENV_%s have different values, using the "+
				"latter\n", name, name)
		case !set:
			fmt.Fprintf(os.Stderr, "INFO:    Environment variable SINGULARITYENV_%s is set, but APPTAINERENV_%s is "+
				"preferred\n", name, name)
		}
	}
	for _, prefix := range []string{"APPTAINERENV_", "SINGULARITYENV_"} {
		for _, kv := range environ {
			key, is := strings.CutPrefix(kv, prefix)
			name, value, _ := strings.Cut(key, "=")
			if old, set := inside[name]; is && set && old != value {
				fmt.Fprintf(os.Stderr, "WARNING: Skipping environment variable [%s%s]\n", prefix, key)
			} else if is && slices.Contains([]string{"HOME", "PATH"}, name) {
				fmt.Fprintf(os.Stderr, "WARNING: Overriding %s environment variable with %s is not permitted\n", name,
					prefix+name)
			} else if is {
				inside[name] = value
			}
		}
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if _, set := inside[name]; !set && passes(name, o.clean) {
			inside[name] = value
		}
	}
	if o.nv {
		inside["LD_LIBRARY_PATH"] += ":/.singularity.d/libs"
	}
	env := o.env
	for name, value := range inside {
		env = append(env, name+"="+value)
	}
	return append(env, "HOME="+os.Getenv("HOME"))
}

// passes reports variables that come through without a prefix.
func passes(name string, clean bool) bool {
	upper := strings.ToUpper(name)
	switch upper {
	case "TERM", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "FTP_PROXY":
		return name == upper || upper != "TERM" && name == strings.ToLower(name)
	case "HOME", "PATH", "LD_LIBRARY_PATH":
		return false
	}
	for _, prefix := range []string{"APPTAINER_", "SINGULARITY_", "APPTAINERENV_", "SINGULARITYENV_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return !clean
}

func lookup(environ []string, name string) (value string, set bool) {
	for _, kv := range environ {
		if value, set = strings.CutPrefix(kv, name+"="); set {
			return value, true
		}
	}
	return "", false
}

// find looks in the image, then here: these containers share all else.
func find(image, program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for _, root := range []string{image, "/"} {
		for _, dir := range filepath.SplitList(standardPath) {
			if file := filepath.Join(root, dir, program); syscall.Access(file, 1) == nil {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%q: executable file not found in $PATH", program)
}

// inherited are the open files after the standard ones, which Apptainer leaves open.
func inherited() (files []*os.File) {
	for fd := uintptr(3); ; fd++ {
		flags, _, failed := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0)
		if failed != 0 || flags&syscall.FD_CLOEXEC != 0 {
			return files
		}
		files = append(files, os.NewFile(fd, "inherited"))
	}
}

// run is the monitor, or process 1 of a container: it hands signals on and ends as the program does.
func run(program string, argv, env []string, files []*os.File, how *syscall.SysProcAttr) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	cmd := exec.Command(program, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Env = env
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if how != nil {
		cmd.SysProcAttr = how
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread() // the program dies with the thread that started it
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case <-ended:
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if status.Signaled() {
				signal.Reset()
				_ = syscall.Kill(os.Getpid(), status.Signal()) // which process 1 survives
				return 128 + int(status.Signal())
			}
			return status.ExitStatus()
		}
	}
}
