package rankenv

import (
	"path"
	"slices"
	"strings"
)

// Runtime is a kind of container program.
type Runtime int

// The runtimes differ in which variables they pass into a container.
const (
	NoRuntime   Runtime = iota
	Singularity         // includes Apptainer: all variables, or with --cleanenv those with a prefix
	Docker              // includes podman and nerdctl: only variables that -e names
	Enroot              // only variables that -e names
	Pyxis               // srun with a container: all variables, but the image's values win
)

// Container is the container program of a command line.
type Container struct {
	Runtime Runtime
	Name    string   // base name, such as docker
	Command string   // subcommand, if the ranks' variables depend on it, such as run
	Args    []string // all words after its name
}

// FindContainer returns the container program that argv runs, directly or through env, time,
// timeout, numactl and other wrappers. It looks at names only: a link or a script with
// another name is not resolved. It is pure.
func FindContainer(argv []string) Container {
	for len(argv) > 0 {
		name := path.Base(argv[0])
		args := argv[1:]
		if runtime, command := runtimeOf(name, args); runtime != NoRuntime {
			return Container{runtime, name, command, args}
		}
		w, known := wrapperNamed(name)
		if !known {
			break
		}
		argv = w.command(args) // always shorter than before
	}
	return Container{}
}

// runtimeOf returns the runtime of a program, and its subcommand.
func runtimeOf(name string, args []string) (runtime Runtime, command string) {
	runs := func(commands ...string) bool {
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
		if runs("run", "exec", "create") {
			return Docker, command
		}
	case "enroot":
		if runs("start") {
			return Enroot, command
		}
	case "srun":
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--container-image") }) {
			return Pyxis, ""
		}
	}
	if ext := path.Ext(name); ext == ".sif" || ext == ".simg" { // an executable image
		return Singularity, ""
	}
	return NoRuntime, ""
}

// Names returns the names of the variables that gorun sets for every rank, in a fixed order.
func Names() []string {
	any := Rank{
		LocalSize:  1,
		GPUs:       1,
		Elastic:    true,
		Addr:       "any",
		Rendezvous: Rendezvous{MasterAddr: "any", GlooPort: 1},
		MPI:        MPI{FD: 1, Port: "any"},
		Network: Network{
			Encrypt:   true,
			All:       true,
			Interface: "any",
			NCCL:      "any",
		},
	}
	names := NamesOf(slices.Concat(any.Environ(), Rank{Launcher: "srun"}.tasks(), Rank{Launcher: "flux"}.tasks(),
		any.jax(), any.Defaults()))
	return append(names, Unbuffered, Threads, VisibleGPUs, GPUOrder)
}

// NamesOf returns the names in NAME=value pairs.
func NamesOf(env []string) (names []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	return names
}

// Threads is the variable with the number of threads that OpenMP starts in a rank.
const Threads = "OMP_NUM_THREADS"

// VisibleGPUs is the variable that selects a rank's CUDA devices, GPUOrder the one for their
// numbering.
const (
	VisibleGPUs = "CUDA_VISIBLE_DEVICES"
	GPUOrder    = "CUDA_DEVICE_ORDER"
)

// Unbuffered makes Python flush every line although a rank's stdout is a pipe.
const Unbuffered = "PYTHONUNBUFFERED"

// Named reports whether the container program's options pass one of a rank's variables, or
// the whole environment. The user then decides what the container gets.
func (c Container) Named() bool {
	for i, a := range c.Args {
		value, is := strings.CutPrefix(a, "--env=")
		if !is {
			value, is = strings.CutPrefix(a, "--container-env=")
		}
		if !is && (a == "-e" || a == "--env" || a == "--container-env") && i+1 < len(c.Args) {
			value = c.Args[i+1]
			is = true
		}
		if !is && !strings.HasPrefix(a, "--") {
			value, is = strings.CutPrefix(a, "-e")
		}
		if a == "--env-host" || a == "--env-host=true" || is &&
			slices.ContainsFunc(strings.Split(value, ","), ofRanks) {
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
		// variables that users set themselves do not count
		return n == name && Stale(n) || glob && strings.HasPrefix(n, prefix)
	})
}

// Apptainer and Singularity set variables with these prefixes in a container, without the
// prefix, also under --cleanenv. Apptainer accepts both.
const (
	apptainerPrefix   = "APPTAINERENV_"
	singularityPrefix = "SINGULARITYENV_"
)

// Unprefixed returns the name that a variable has inside a container.
func Unprefixed(name string) string {
	for _, prefix := range []string{apptainerPrefix, singularityPrefix} {
		if inside, is := strings.CutPrefix(name, prefix); is {
			return inside
		}
	}
	return name
}

// Prefixed returns the variables to add so that env (NAME=value strings) reaches a Singularity
// or Apptainer container whatever its options. Each value gets both prefixes, since Apptainer
// warns of values that differ and of the old prefix alone. Names in taken, as they are inside
// the container, keep the value that the user has set.
func Prefixed(env []string, taken map[string]bool) (more []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if needsPrefix(name) && !taken[name] {
			more = append(more, apptainerPrefix+kv, singularityPrefix+kv)
		}
	}
	return more
}

// Taken returns the names, inside a container, of the variables that env sets by a prefix.
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

// needsPrefix reports whether a container may lack a variable and can be given it. Apptainer
// always passes its alwaysPassKeys, HOME and PATH belong to the image, and a name that is not
// valid in a shell cannot be passed.
func needsPrefix(name string) bool {
	switch name {
	case "http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
		"ALL_PROXY", "FTP_PROXY",
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
