package dialect

import "strings"

// Rows returns the flags of a launcher and their translation, for help and documentation.
func Rows(launcher Dialect) [][2]string { return rows(words(), launcher) }

// SettingRows returns the same for the settings of Open MPI.
func SettingRows() [][2]string { return rows(mcaWords(), OpenMPI) }

func rows(table []word, launcher Dialect) (out [][2]string) {
	for _, w := range table {
		if w.of&launcher == 0 {
			continue
		}
		var names []string
		for name := range strings.FieldsSeq(w.names) {
			names = append(names, dashed(name, launcher, &w))
		}
		out = append(out, [2]string{strings.Join(names, ", ") + w.values(), w.says()})
	}
	return out
}

// dashed writes a word as its launcher does: Hydra uses one dash, settings none.
func dashed(name string, launcher Dialect, w *word) string {
	switch {
	case strings.Contains(name, "_"):
		return name
	case len(name) == 1 || launcher == Hydra:
		return "-" + name
	}
	return "--" + name
}

// values returns the placeholder of a word's values.
func (w *word) values() string {
	is := strings.ReplaceAll(w.is, " ", "|")
	switch {
	case is != "" && w.args == attached:
		return "=" + is
	case is != "":
		return " " + is
	case w.args == pair:
		return " NAME=VALUE"
	case w.args == attached:
		return "[=VALUE]"
	}
	return strings.Repeat(" VALUE", w.args)
}

// says describes the translation of a word.
func (w *word) says() string {
	switch w.does {
	case means:
		flag, value, valued := strings.Cut(w.to, "=")
		if value = strings.ReplaceAll(value, "{}", "VALUE"); valued && strings.Contains(value, " ") {
			value = "'" + value + "'"
		}
		return strings.TrimSpace("--" + flag + " " + value)
	case same:
		return "nothing to do: " + w.to
	case pending:
		return "no effect yet: " + w.to
	case instead:
		return "not needed: " + w.to
	case refuse:
		return "refused: " + w.to
	}
	return readerSays(w.to)
}

// readerSays describes the translation of a reader.
func readerSays(reader string) string {
	switch reader {
	case "mca":
		return "see the settings of Open MPI"
	case "mpi-args":
		return "the options of mpirun in it are read as such"
	case "ssh-args":
		return "-p, -i, -F and some -o are --ssh-port, --ssh-identity-file, --ssh-config, --host-keys; all are --launch-agent-args"
	case "rsh-agent":
		return "--launch-agent; of several with : between, the first that is there"
	case "map-by":
		return "slot, core and node are --map-by slot and node, ppr:N:node is --ppn N, :pe=N is --cpus-per-rank N, :nooversubscribe is --no-oversubscribe; others are refused"
	case "bind-to":
		return "--bind-to VALUE; machine is none, rr is hwthread, core:N is core and --cpus-per-rank N"
	case "cpus-per-task":
		return "--cpus-per-rank VALUE, and --bind-to none unless --cpu-bind says otherwise"
	case "cpu-bind":
		return "none, threads, cores, sockets and ldoms are --bind-to; verbose is --report-bindings; others have no effect yet"
	case "gpus-per-task":
		return "--gpus-per-rank VALUE; of a100:2 the 2"
	case "gpu-bind":
		return "none is --gpus-per-rank none, per_task:N is --gpus-per-rank N, single:1 is 1; others have no effect yet"
	case "envlist":
		return "--no-env and --export of each name"
	case "envexcl":
		return "--unset-env of each name"
	case "mca-env-list":
		return "--export of each, parted by ;"
	case "nodes":
		return "--nodes N; with --max-restarts also MIN:MAX: --min-np and --max-np, so many times --nproc-per-node"
	case "srun-export":
		return "ALL sends the environment, NONE does not, NAME and NAME=VALUE are --export"
	case "srun-time":
		return "--timeout, from minutes, minutes:seconds, hours:minutes:seconds or days-hours"
	case "fusion":
		return "--export HOROVOD_FUSION_THRESHOLD=VALUE × 1048576"
	case "pattern":
		return "--prefix, with %r and %h"
	case "prefix":
		return "a path: no effect, gorun needs nothing installed on hosts; else --prefix"
	case "nodelist":
		return "--hosts VALUE; --hostfile VALUE where it has a /"
	case "output":
		return "tag, timestamp, merge and dir=DIR are --prefix mpirun, --timestamp, --merge-stderr, --output-filename DIR; dir=DIR:nocopy is --hide all, too"
	case "display":
		return "map and allocation are --display-map, bindings is --report-bindings"
	case "default-hostfile":
		return "--hostfile, where no hosts are named"
	case "default-slots":
		return "slots of hosts in the default hostfile that name none, from the environment"
	case "app", "configfile":
		return "a program a line, with its flags before it, as between colons; \\ goes on with the next line, # is a comment"
	case "multi-prog":
		return "the program is a file: 0,2-3 ./prog %t %o a line; %t is the rank, %o its place in the line, * all other ranks"
	case "module":
		return "the program is run by python -m"
	case "no-python":
		return "the program is run as it is, not by python"
	}
	return streamsSay(reader)
}
