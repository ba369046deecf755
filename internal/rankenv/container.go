package rankenv

import (
	"path"
	"slices"
	"strings"
)

// Runtime is a kind of program that runs others inside a container.
type Runtime int

// The kinds differ in what a container gets of their environment.
const (
	NoRuntime   Runtime = iota
	Singularity         // Apptainer too: all of it, or with --cleanenv what has a prefix
	Docker              // podman and nerdctl too: nothing but what -e names
	Enroot              // nothing but what -e names
	Pyxis               // all of it, but the image's values win: srun with a container
)

// Container is the container program that a command line runs.
type Container struct {
	Runtime Runtime
	Name    string   // without its folders: docker
	Command string   // what it is told to do, where ranks' variables depend on it: run
	Args    []string // all that follows its name
}

// FindContainer finds the container program that argv runs, itself or through env, time,
// timeout, numactl and other programs that run a command. It is pure: a link
// or a script with another name is not seen through.
func FindContainer(argv []string) Container {
	for len(argv) > 0 {
		name, args := path.Base(argv[0]), argv[1:]
		if runtime, command := runtimeOf(name, args); runtime != NoRuntime {
			return Container{runtime, name, command, args}
		}
		w, known := wrapperNamed(name)
		if !known {
			break
		}
		argv = w.command(args) // shorter than before, or split out of one of its words
	}
	return Container{}
}

// runtimeOf is the kind of a program, and what it is told to do.
func runtimeOf(name string, args []string) (runtime Runtime, command string) {
	told := func(commands ...string) bool {
		i := slices.IndexFunc(args, func(a string) bool { return slices.Contains(commands, a) })
		if i >= 0 {
			command = args[i]
		}
		return i >= 0
	}
	switch name {
	case "singularity", "apptainer", "run-singularity":
		return Singularity, ""
	case "docker", "podman", "nerdctl":
		if told("run", "exec", "create") {
			return Docker, command
		}
	case "enroot":
		if told("start") {
			return Enroot, command
		}
	case "srun":
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--container-image") }) {
			return Pyxis, ""
		}
	}
	if ext := path.Ext(name); ext == ".sif" || ext == ".simg" { // an image starts itself
		return Singularity, ""
	}
	return NoRuntime, ""
}

// Names are the variables that every rank gets of gorun, in a fixed order.
func Names() []string {
	any := Rank{MasterAddr: "any", Encrypt: true, Elastic: true, GlooPort: 1, PMIFD: 1, PMIPort: "any", Addr: "any", Interface: "any", NCCLInterfaces: "any"}
	return append(namesOf(slices.Concat(any.Environ(), any.Defaults())), Unbuffered, Threads, VisibleGPUs, GPUOrder)
}

// namesOf are the names of NAME=value strings.
func namesOf(env []string) (names []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	return names
}

// Threads is how many threads OpenMP and the libraries that follow it start in a rank.
const Threads = "OMP_NUM_THREADS"

// VisibleGPUs is which GPUs CUDA shows a rank, GPUOrder how it numbers them.
const (
	VisibleGPUs = "CUDA_VISIBLE_DEVICES"
	GPUOrder    = "CUDA_DEVICE_ORDER"
)

// Unbuffered makes Python print at once although a rank's stdout is a pipe.
const Unbuffered = "PYTHONUNBUFFERED"

// Named reports whether the container program's options name one of a rank's variables,
// or all of the environment: then the user knows what a container gets.
func (c Container) Named() bool {
	for i, a := range c.Args {
		value, is := strings.CutPrefix(a, "--env=")
		if !is {
			value, is = strings.CutPrefix(a, "--container-env=")
		}
		if !is && (a == "-e" || a == "--env" || a == "--container-env") && i+1 < len(c.Args) {
			value, is = c.Args[i+1], true
		}
		if !is && !strings.HasPrefix(a, "--") {
			value, is = strings.CutPrefix(a, "-e")
		}
		if a == "--env-host" || a == "--env-host=true" || is && slices.ContainsFunc(strings.Split(value, ","), ofRanks) {
			return true
		}
	}
	return false
}

// ofRanks reports whether NAME, NAME=value or PREFIX* is a rank's variable.
func ofRanks(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	prefix, glob := strings.CutSuffix(name, "*")
	return slices.ContainsFunc(Names(), func(n string) bool {
		return n == name && Stale(n) || glob && strings.HasPrefix(n, prefix) // not those that users set for themselves
	})
}

// The prefixes of variables that Apptainer and Singularity set in a container, also under
// --cleanenv, without the prefix. Apptainer knows both.
const (
	apptainerPrefix   = "APPTAINERENV_"
	singularityPrefix = "SINGULARITYENV_"
)

// Unprefixed is the name that a variable has in a container.
func Unprefixed(name string) string {
	for _, prefix := range []string{apptainerPrefix, singularityPrefix} {
		if inside, is := strings.CutPrefix(name, prefix); is {
			return inside
		}
	}
	return name
}

// Prefixed returns what must be set besides env, NAME=value strings, so that it reaches a
// Singularity or Apptainer container whatever its options: each value under both
// prefixes, as Apptainer warns of values that differ and of the old prefix alone. Names in
// taken, which are those in the container, are left to who has set them.
func Prefixed(env []string, taken map[string]bool) (more []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if needsPrefix(name) && !taken[name] {
			more = append(more, apptainerPrefix+kv, singularityPrefix+kv)
		}
	}
	return more
}

// Taken are the names of the variables that env sets in containers by a prefix.
func Taken(env []string) map[string]bool {
	taken := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if inside := Unprefixed(name); inside != name {
			taken[inside] = true
		}
	}
	return taken
}

// needsPrefix reports names that a container may be without, and may be given. What it
// always has are Apptainer's alwaysPassKeys; HOME and PATH are the image's matter, and what a
// shell would not take for a name cannot be given.
func needsPrefix(name string) bool {
	switch name {
	case "http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "FTP_PROXY",
		"TERM", "HOME", "PATH", "PREPEND_PATH", "APPEND_PATH", "PWD", "UID", "EUID", "GID", "IFS", "OPTIND":
		return false
	}
	for _, own := range []string{"APPTAINER_", "SINGULARITY_", apptainerPrefix, singularityPrefix} {
		if strings.HasPrefix(name, own) {
			return false
		}
	}
	return shellName(name)
}

func shellName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
