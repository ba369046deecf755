package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/gorun/gorun"

// layer is one row of the import table.
type layer struct {
	folder string   // and all folders below it that have no row of their own
	may    []string // folders of this repository it may import besides its own layer's; "x/..." is x and all below it
	tests  []string // what its tests may import besides that and internal/...
	why    string
	large  string // why one package of it may pass maxPackage lines; "" is none may
}

// layers is the import table. Arrows go from the command down to the leaves and never back.
func layers() []layer {
	leaf := "it is a leaf, usable and testable on its own"
	return []layer{
		{folder: "hostfile", may: []string{"internal/prose"}, why: leaf},
		{folder: "ssh", may: []string{"internal/files/trust", "internal/prose"},
			why: leaf + "; it knows nothing of ranks"},
		{folder: "gpu", may: []string{"internal/files/trust"}, why: leaf},
		{folder: "gpu/nvml", may: []string{"gpu"}, why: "it only fills in gpu's types"},
		{folder: "internal/rankenv", why: leaf},
		{folder: "internal/net/untrusted", why: leaf},
		{folder: "internal/net/wire", may: []string{"internal/net/frames", "internal/net/untrusted"},
			why: "the stream carries jobs and knows nobody who sends them"},
		{folder: "internal/release", why: leaf},
		{folder: "internal/net/admit", may: []string{"internal/net/sockets"},
			why: "it bounds connections, whatever is said on them"},
		{folder: "internal/net/secure", may: []string{"internal/net/admit", "internal/net/retry"},
			why: "it authenticates whoever shares a key, and knows neither ranks' calls nor " +
				"files"},
		{folder: "internal/pickle", why: leaf},
		{folder: "internal/sight/flight", may: []string{"internal/pickle"},
			why: leaf + "; it is pure: the bytes of a dump in, collectives out"},
		{folder: "internal/sight/ras", may: []string{"internal/net/untrusted"},
			why: leaf + "; it speaks a protocol of NCCL over a connection that it is given"},
		{folder: "internal/host/process", why: leaf},
		{folder: "internal/sight/recorder", may: []string{"internal/release", "internal/host/process"}, why: leaf +
			"; ranks write it, and agents read it"},
		{folder: "internal/files/trust", may: []string{"internal/prose"}, why: leaf},
		{folder: "internal/files/space", may: []string{"internal/prose"}, why: leaf},
		{folder: "internal/files/workdir", may: []string{"internal/files/relay", "internal/files/space",
			"internal/files/trust", "internal/net/wire"},
			why: "it is handed the connection through which a folder is brought to a host"},
		{folder: "internal/files/relay", may: []string{"internal/files/space", "internal/files/trust",
			"internal/net/frames", "internal/net/retry", "internal/net/secure", "internal/net/wire"},
			why: "it is handed the connections of launcher and agents"},
		{folder: "internal/files/fetch", may: []string{"internal/files/relay", "internal/files/space",
			"internal/files/trust", "internal/files/workdir", "internal/net/untrusted", "internal/net/wire"},
			why: "it is handed the connection through which files come back"},
		{folder: "internal/files/pyenv", may: []string{"internal/files/relay", "internal/files/trust",
			"internal/net/wire"},
			why: "it packs and unpacks folders, whoever brings them"},
		{folder: "internal/host/memexec", why: leaf},
		{folder: "internal/buildid", why: leaf},
		{folder: "internal/net/sockets", why: leaf},
		{folder: "internal/net/kv", may: []string{"internal/net/admit"},
			why: "the store serves whoever asks and knows nobody who does"},
		{folder: "internal/mpi/pmi", why: "it serves PMI-1 over any store and any socket"},
		{folder: "internal/mpi/pmix", may: []string{"internal/net/kv"},
			why: "it serves PMIx over any store, and is told how to start its helper"},
		{folder: "internal/host/elfhead", why: leaf},
		{folder: "internal/host/linkage", may: []string{"internal/files/trust", "internal/host/elfhead"}, why: leaf},
		{folder: "ring", large: "the public types Comm, Queue and Device share calls, errors and one end; below ring " +
			"each would need a second copy of its API",
			may: []string{"internal/rankenv", "internal/sight/recorder", "internal/net/secure", "ring/internal/..."},
			why: "programs link ring, and must not get the launcher with it"},
		{folder: "ring/capi", may: []string{"ring", "internal/files/trust"}, why: "C sees what Go programs see"},
		{folder: "ring/python", why: "it is Python, and its tests run it from outside"},
		{folder: "ring/internal/engine", may: []string{"internal/net/secure", "ring/internal/..."},
			why: "it runs calls on raw bytes, and knows neither the job nor typed buffers"},
		{folder: "ring/internal", may: []string{"internal/host/process", "internal/host/topology", "internal/rankenv",
			"internal/release", "internal/net/secure"},
			why: "ring is built on it, not the other way round"},
		{folder: "internal/prose", why: leaf},
		{folder: "internal/postmortem", may: []string{"internal/prose"},
			why: leaf + "; it is pure: the end of a rank's stderr in, advice out"},
		{folder: "internal/host/topology", may: []string{"internal/prose"}, why: leaf},
		{folder: "internal/host/contain", may: []string{"internal/host/process"}, why: leaf},
		{folder: "internal/elastic", may: []string{"hostfile", "internal/prose", "internal/net/wire"},
			why: "it decides, and is told of hosts and processes; of the hostfile it uses the grammar, of the wire " +
				"the exit codes"},
		{folder: "internal/mpi/gloo", may: []string{"internal/pickle"}, why: leaf + "; it is handed the store"},
		{folder: "internal/host/agent", may: []string{"internal/host/errand", "internal/host/inspect",
			"internal/host/lookup", "internal/net/sockets", "internal/host/seat", "internal/host/services",
			"internal/host/contain", "internal/host/memexec", "internal/files/pyenv",
			"internal/rankenv", "internal/files/fetch", "internal/files/relay", "internal/host/topology",
			"internal/net/secure", "internal/net/wire", "internal/files/workdir", "internal/host/process",
			"internal/host/warm"},
			tests: []string{"gpu"},
			why:   "the agent hears of its job only through the wire"},
		{folder: "internal/host/errand",
			may: []string{"gpu", "internal/files/trust", "internal/host/meter", "internal/host/process",
				"internal/net/wire"},
			why: "it is handed the processes that it is about"},
		{folder: "internal/host/inspect", may: []string{"internal/files/trust", "internal/host/contain",
			"internal/host/elfhead", "internal/host/process", "internal/net/sockets",
			"internal/pickle", "internal/prose", "internal/sight/flight", "internal/sight/pyframes",
			"internal/sight/ras", "internal/sight/recorder", "internal/sight/stacks"},
			why: "it looks at processes, and does not care who started them"},
		{folder: "internal/sight/stacks", may: []string{"internal/sight/flight", "internal/prose", "internal/sight/ras",
			"internal/sight/recorder"}, why: "it is pure: reports in, a text out"},
		{folder: "internal/sight/pyframes", may: []string{"internal/sight/stacks"},
			why: "it is pure: memory in, stacks out"},
		{folder: "internal/host/lookup", may: []string{"internal/files/trust", "internal/host/elfhead",
			"internal/net/wire", "internal/prose", "internal/usage"}, why: "it looks for files, and starts none"},
		{folder: "internal/net/callback", may: []string{"internal/net/admit", "internal/net/frames",
			"internal/net/retry", "internal/net/secure"},
			why: "it joins both ends, and knows neither jobs nor what started them"},
		{folder: "internal/host/resident", may: []string{"internal/net/frames", "internal/prose", "internal/net/wire"},
			why: "it starts agents, and is told how; jobs come to the agents"},
		{folder: "internal/host/warm", may: []string{"internal/files/trust", "internal/host/contain",
			"internal/host/topology"},
			why: "it forks processes, and is told by whom and how"},
		{folder: "internal/host/meter",
			may: []string{"internal/host/contain", "internal/sight/recorder", "internal/net/wire"},
			why: "it reads counters of processes that it is told of"},
		{folder: "internal/host/seat", may: []string{"gpu", "internal/host/memexec", "internal/prose",
			"internal/rankenv",
			"internal/host/topology", "internal/files/trust", "internal/net/sockets", "internal/net/wire"},
			why: "it assigns what this host has, and serves nobody"},
		{folder: "internal/host/services", may: []string{"internal/files/trust", "internal/host/contain",
			"internal/host/process",
			"internal/mpi/gloo", "internal/net/admit", "internal/net/kv", "internal/host/linkage",
			"internal/host/memexec", "internal/mpi/pmi", "internal/mpi/pmix", "internal/rankenv",
			"internal/net/wire"}, why: "it answers ranks over the wire, and starts none"},
		{folder: "launcher/plan", may: []string{"hostfile", "internal/net/wire", "internal/prose", "internal/rankenv"},
			why: "it is pure: hosts and a request in, ranks on hosts out"},
		{folder: "launcher/connect", may: []string{"hostfile", "internal/prose", "launcher/session"},
			why: "it is handed its hosts, and knows nothing of ranks"},
		{folder: "launcher/core", may: []string{"internal/net/kv", "internal/postmortem", "internal/prose",
			"internal/net/wire", "launcher/plan"},
			tests: []string{"hostfile", "launcher/session"},
			why:   "it is pure: events in, actions out, whoever brings them"},
		{folder: "launcher/route", may: []string{"hostfile", "internal/prose", "internal/rankenv", "internal/net/wire",
			"launcher/plan"}, why: "it is pure, and is told of addresses"},
		{folder: "launcher/output/fold", why: "it is pure: lines in, lines out"},
		{folder: "launcher/output", tests: []string{"hostfile"},
			may: []string{"internal/prose", "internal/files/trust", "internal/net/wire", "launcher/output/fold",
				"launcher/plan"},
			why: "it writes bytes of ranks, whoever brings them; of the wire it uses the numbers of streams"},
		{folder: "launcher/survey", may: []string{"gpu", "hostfile", "internal/prose", "launcher/connect",
			"launcher/session"}, why: "it asks hosts, and runs no job"},
		{folder: "launcher/deliver", may: []string{"hostfile", "internal/files/fetch", "internal/files/relay",
			"internal/net/wire", "launcher/connect", "launcher/plan", "launcher/route", "launcher/session",
			"launcher/survey"},
			why: "it brings files to hosts and back, and runs no job"},
		{folder: "launcher/session", tests: []string{"hostfile"}, may: []string{"gpu", "internal/buildid",
			"internal/net/kv", "internal/prose", "internal/files/fetch", "internal/files/pyenv", "internal/files/relay",
			"internal/files/trust", "internal/files/workdir", "internal/net/secure", "internal/net/wire",
			"launcher/plan"},
			why: "it knows one host, and not the job"},
		{folder: "launcher", may: []string{"hostfile", "internal/elastic", "internal/net/kv", "internal/mpi/pmi",
			"internal/prose", "internal/net/wire", "internal/files/fetch", "internal/files/workdir", "launcher/..."},
			why: "the launcher is handed its hosts, and does not care how they are reached"},
		{folder: "internal/net/frames", why: leaf},
		{folder: "internal/net/retry", why: leaf},
		{folder: "internal/net/kube", may: []string{"internal/files/trust", "internal/net/retry",
			"internal/net/untrusted", "internal/prose", "internal/usage"},
			why: "it says which pods there are, and knows no jobs"},
		{folder: "internal/net/keep", may: []string{"internal/host/resident", "internal/sight/control",
			"internal/net/frames", "internal/net/retry",
			"internal/net/wire"}, why: "it is handed connections, and knows neither SSH nor jobs"},
		{folder: "internal/sight/control", may: []string{"internal/files/trust", "internal/net/admit",
			"internal/net/frames", "internal/net/wire", "internal/prose", "internal/usage"},
			why: "it serves and finds jobs, and knows neither what runs them nor what prints them"},
		{folder: "internal/sight/watch", may: []string{"internal/net/wire", "internal/prose"},
			why: "it asks hosts for numbers, whoever wants them"},
		{folder: "internal/sight/watch/metrics", may: []string{"internal/files/trust", "internal/net/admit",
			"internal/sight/watch"},
			why: "it is handed samples, and writes them"},
		{folder: "internal/sight/watch/record", may: []string{"internal/files/trust", "internal/net/untrusted",
			"internal/prose", "internal/sight/watch"},
			why: "it is handed samples, and keeps them"},
		{folder: "internal/sight/watch/straggler", may: []string{"internal/sight/watch"},
			why: "it is handed samples, and finds ranks"},
		{folder: "internal/sight/chart", may: []string{"internal/prose"},
			why: "it draws what it is given, whatever it means"},
		{folder: "internal/sight/report", may: []string{"internal/prose", "internal/sight/chart",
			"internal/sight/watch/record"},
			why: "it writes a page about a record, and knows no running job"},
		{folder: "internal/doctor", may: []string{"gpu", "internal/prose"},
			why: "it is pure: measurements in, findings out"},
		{folder: "internal/doctor/probe", may: []string{"gpu", "internal/doctor", "internal/rankenv",
			"internal/files/trust", "internal/net/secure", "internal/prose",
			"internal/host/topology"}, why: "it measures, and judges nothing"},
		{folder: "cmd/gorun/internal/examine", may: []string{"gpu", "hostfile", "cmd/gorun/internal/ui",
			"internal/usage", "internal/files/trust",
			"internal/doctor", "internal/doctor/probe", "internal/net/untrusted", "internal/prose",
			"internal/sight/chart", "launcher", "launcher/plan", "launcher/survey", "ssh"},
			why: "it is handed hosts and connections, and runs probes there"},
		{folder: "cmd/gorun/internal/files", may: []string{"hostfile", "cmd/gorun/internal/ui", "internal/usage",
			"internal/prose", "internal/files/fetch", "internal/files/relay", "internal/net/wire",
			"internal/files/workdir", "launcher", "launcher/deliver", "launcher/route", "launcher/survey"},
			why: "it is handed hosts and connections, and brings files there"},
		{folder: "internal/usage", may: []string{"internal/files/trust", "internal/prose"}, why: leaf},
		{folder: "cmd/gorun/internal/mpir", may: []string{"launcher", "launcher/plan", "cmd/gorun/internal/installed"},
			tests: []string{"hostfile"}, why: "it is told the processes of a job, and shows them in a program of C"},
		{folder: "cmd/gorun/internal/panes", may: []string{"internal/files/trust"},
			why: "it drives tmux, and is told which ranks to show"},
		{folder: "cmd/gorun/internal/tool", tests: []string{"hostfile"}, may: []string{"internal/usage", "launcher",
			"launcher/plan"}, why: "it is pure: flags, plan and programs in, commands of ranks out"},
		{folder: "cmd/gorun/internal/rankfile", may: []string{"internal/usage"}, why: "text in, places of ranks out"},
		{folder: "cmd/gorun/internal/exitcode", may: []string{"internal/sight/control", "internal/usage", "launcher"},
			why: "one table turns errors into exit codes"},
		{folder: "cmd/gorun/internal/settings", may: []string{"hostfile", "internal/sight/control", "launcher/...",
			"cmd/gorun/internal/dialect", "cmd/gorun/internal/tool", "internal/usage", "internal/elastic",
			"internal/host/lookup", "internal/prose", "internal/files/trust", "internal/net/wire"},
			why: "it says what the user wants, and does nothing"},
		{folder: "cmd/gorun/internal/hosts", may: []string{"hostfile", "cmd/gorun/internal/rankfile",
			"cmd/gorun/internal/settings", "internal/usage", "internal/prose", "internal/host/topology",
			"internal/files/trust",
			"internal/net/kube", "internal/net/retry", "launcher/transport", "launcher/transport/srun"},
			why: "it finds hosts and connects to none"},
		{folder: "cmd/gorun/internal/ui", tests: []string{"hostfile"},
			may: []string{"gpu", "launcher/...", "internal/bench", "cmd/gorun/internal/exitcode",
				"internal/usage", "internal/prose", "internal/files/trust",
				"internal/files/workdir", "internal/net/wire", "internal/sight/chart"},
			why: "it writes what others decide"},
		{folder: "cmd/gorun/internal/jobs", may: []string{"hostfile", "launcher", "launcher/output",
			"cmd/gorun/internal/exitcode",
			"cmd/gorun/internal/ui", "internal/usage", "internal/sight/control", "internal/net/admit",
			"internal/net/frames",
			"internal/prose", "internal/sight/report", "internal/sight/watch", "internal/sight/watch/record",
			"internal/sight/stacks", "internal/net/wire"}, why: "it talks to running jobs, and starts none"},
		{folder: "cmd/gorun/internal/job", may: []string{"hostfile", "internal/sight/control", "internal/net/retry",
			"internal/net/frames", "launcher/...", "cmd/gorun/internal/dialect",
			"cmd/gorun/internal/hosts", "cmd/gorun/internal/mpir",
			"cmd/gorun/internal/panes", "cmd/gorun/internal/settings", "cmd/gorun/internal/tool",
			"cmd/gorun/internal/ui", "internal/usage", "internal/prose", "internal/rankenv",
			"internal/sight/stacks", "internal/files/trust",
			"internal/net/untrusted", "internal/net/wire", "internal/files/fetch", "internal/files/workdir",
			"internal/sight/watch", "internal/sight/watch/record",
			"cmd/gorun/internal/publish", "internal/buildid", "cmd/gorun/internal/installed",
			"internal/files/pyenv"},
			why: "it turns settings into a job of the launcher"},
		{folder: "cmd/gorun/internal/kept", may: []string{"cmd/gorun/internal/exitcode", "cmd/gorun/internal/hosts",
			"cmd/gorun/internal/job", "cmd/gorun/internal/settings", "cmd/gorun/internal/ui", "internal/usage",
			"internal/sight/control", "internal/net/keep", "internal/prose", "launcher/transport",
			"launcher/transport/kept", "launcher", "launcher/connect", "launcher/session", "ssh",
			"cmd/gorun/internal/installed", "internal/net/wire"},
			why: "it joins a keeper with the command line, and runs no job"},
		{folder: "cmd/gorun/internal/installed", may: []string{"internal/buildid", "internal/files/trust",
			"internal/host/memexec", "internal/net/wire", "internal/usage", "launcher"},
			why: "it finds files beside gorun, and starts none"},
		{folder: "cmd/gorun/internal/publish", may: []string{"cmd/gorun/internal/settings", "cmd/gorun/internal/ui",
			"internal/usage",
			"internal/sight/watch", "internal/sight/watch/metrics", "internal/sight/watch/record",
			"internal/sight/watch/straggler",
			"launcher"}, why: "it is handed a watch, and offers it to others"},
		{folder: "cmd/gorun/internal/top", may: []string{"cmd/gorun/internal/ui", "internal/usage",
			"internal/sight/control",
			"internal/prose", "internal/sight/stacks", "internal/sight/watch", "internal/sight/watch/straggler"},
			tests: []string{"internal/sight/recorder"}, why: "it shows samples, and takes none"},
		{folder: "launcher/transport", may: []string{"hostfile", "launcher", "ssh", "internal/usage",
			"internal/files/trust",
			"internal/host/lookup", "internal/sight/control", "internal/net/keep", "internal/net/retry",
			"launcher/transport/kept", "launcher/transport/rsh",
			"internal/prose", "launcher/transport/srun"},
			why: "it joins launcher and ssh, and every other way to a host"},
		{folder: "launcher/transport/kept", may: []string{"internal/sight/control", "internal/net/frames",
			"internal/net/keep",
			"internal/prose", "ssh"}, why: "a keeper takes the place of a connection; of ssh it uses the settings " +
			"and the check of host keys"},
		{folder: "launcher/transport/rsh", may: []string{"internal/host/lookup", "internal/prose", "ssh"},
			why: "a program takes the place of a connection; of ssh it uses the quoting and the upload by a shell"},
		{folder: "launcher/transport/srun", may: []string{"hostfile", "launcher", "ssh", "internal/files/trust",
			"internal/host/resident", "internal/net/callback", "internal/usage", "internal/prose", "internal/rankenv"},
			why: "one way to a host"},
		{folder: "internal/test/files", may: []string{"internal/test/must"},
			why: "tests of any package make files"},
		{folder: "internal/test/golden", may: []string{"internal/usage", "internal/test/check", "internal/test/must"},
			why: "tests of any package compare texts"},
		{folder: "internal/test/records", may: []string{"internal/test/must"},
			why: "tests of any package attack TLS"},
		{folder: "internal/test/documents", may: []string{"internal/test/must"}, why: "it reads documents"},
		{folder: "internal/test/environ", why: leaf},
		{folder: "internal/test/check", why: leaf},
		{folder: "internal/test/browser", may: []string{"internal/test/check", "internal/test/lab",
			"internal/test/must"}, why: "it opens any page"},
		{folder: "internal/test/must", may: []string{"internal/test/check"},
			why: "it ends the test where a check would go on"},
		{folder: "internal/test/simulate", why: leaf},
		{folder: "internal/test/e2e", tests: []string{"gpu", "hostfile", "launcher/transport/srun"},
			why: "it drives the built command from outside"},
		{folder: "internal/test/e2e/wedge", may: []string{"ring"},
			why: "it is a program as users write them, that hangs"},
		{folder: "internal/test/attacks", may: []string{"internal/test/lab"},
			why: "it attacks the built command from outside"},
		{folder: "internal/test/attacks/hostile", may: []string{"internal/net/wire"},
			why: "it speaks the protocol in gorun's place"},
		{folder: "internal/test/command", may: []string{"internal/test/check", "internal/test/golden",
			"internal/test/lab",
			"internal/test/must"},
			why: "it starts the built command for the tests of several folders"},
		{folder: "cmd/gorun/internal/manual", why: leaf},
		{folder: "cmd/gorun/internal/dialect",
			may: []string{"internal/files/trust", "internal/prose", "internal/usage"},
			why: "it turns words into words, and knows nothing of what our flags do"},
		{
			folder: "cmd/gorun",
			may: []string{"gpu", "hostfile", "internal/host/agent", "internal/host/inspect", "internal/host/resident",
				"internal/bench", "internal/buildid", "cmd/gorun/internal/dialect", "cmd/gorun/internal/examine",
				"cmd/gorun/internal/exitcode", "cmd/gorun/internal/files", "cmd/gorun/internal/hosts",
				"cmd/gorun/internal/job", "cmd/gorun/internal/jobs", "cmd/gorun/internal/kept",
				"cmd/gorun/internal/manual", "cmd/gorun/internal/settings", "cmd/gorun/internal/top",
				"cmd/gorun/internal/ui", "internal/usage", "internal/sight/control", "internal/doctor",
				"internal/doctor/probe", "internal/prose", "internal/sight/report", "launcher/transport",
				"launcher/transport/srun", "internal/files/trust", "internal/sight/watch/record", "internal/net/wire",
				"launcher", "launcher/survey", "ssh", "cmd/gorun/internal/installed", "internal/rankenv",
				"internal/host/warm"},
			why: "the command joins what the command line means with what does it",
		},
		{folder: "cmd/gorun-gpu", may: []string{"gpu", "gpu/nvml"},
			why: "a crash of the driver's library must take nothing else with it"},
		{folder: "cmd/gorun-bench", may: []string{"internal/bench"},
			why: "it is a rank of a benchmark and nothing else"},
		{folder: "internal/tools/link", why: "it carries frames, whatever is in them"},
		{folder: "internal/tools/peers", may: []string{"internal/bench", "internal/sight/chart", "internal/tools/link"},
			why: "it times gorun and its peers from outside, by the methods of gorun bench"},
		{folder: "internal/tools/gpucheck", why: "it is Python, and looks at gorun from outside"},
		{folder: "internal/test/lab", why: "the lab tests gorun from outside, so it shares no code with it"},
		{folder: "internal/test/faults", may: []string{"internal/test/lab"},
			why: "it does harm to gorun and looks at it from outside, so it shares no code with it"},
		{folder: "internal/tools", may: []string{"internal/net/sockets", "internal/test/faults", "internal/test/lab"},
			why: "its programs measure gorun from outside"},
		{folder: "internal/test/faults/rank", may: []string{"ring"},
			why: "it is a program as users write them, for ranks that harm is done to"},
		{folder: "internal/test/faults/sums", may: []string{"ring"},
			why: "it is a program as users write them, for hosts of two kinds"},
		{folder: "internal/bench", may: []string{"internal/net/admit", "internal/net/secure", "ring"},
			why: "it times what every program can call"},
		{folder: "internal/test/ringtest", may: []string{"ring", "internal/net/kv", "internal/rankenv",
			"internal/test/fake", "internal/test/must"},
			why: "it plays the agent to ring's tests"},
		{folder: "internal/test/fake", may: []string{"internal/net/kv", "internal/net/wire"},
			why: "it plays hosts and the store of a job to tests"},
		{folder: "internal/tools/stub", may: []string{"internal/buildid", "internal/test/fake", "internal/net/wire"},
			why: "it plays thousands of hosts over real SSH to the built command"},
		{folder: "internal/test/style", why: "it reads sources, it does not link them"},
		{folder: "internal/test/kube", may: []string{"internal/test/kube/cluster"},
			why: "it starts the built command beside a real Kubernetes; a module of its own"},
		{folder: "internal/test/kube/cluster", why: "it makes a cluster for whoever asks"},
		{folder: "internal/test/kube/components", why: "it is Kubernetes in one binary"},
		{folder: "internal/test/kube/pause", why: "it is a program of containers"},
		{folder: "internal/test/layers", may: []string{"internal/test/documents"},
			why: "it reads sources, it does not link them"},
		{folder: "examples/events", may: []string{"hostfile", "launcher", "launcher/plan", "launcher/transport"},
			why: "it proves that the public API of the launcher is enough"},
		{folder: "examples", may: []string{"ring"}, why: "the examples prove that the public API is enough"},
	}
}

// outside is a rule for packages that are not ours.
type outside struct {
	path    string // the package and all below it
	folders []string
	alias   string // how every importer must call the package itself; "" is free
	why     string
}

func outsiders() []outside {
	templates := "the linker keeps every exported method of a program with templates: of gorun, which goes to each " +
		"host, an eighth"
	cgo := "cgo makes binaries that need a C library, so it stays in the one place that cannot do without"
	return []outside{
		{path: "github.com/spf13", folders: []string{"cmd", "cmd/gorun/internal"},
			why: "libraries do not parse command lines"},
		{path: "golang.org/x/crypto/ssh", folders: []string{"ssh", "internal/test/lab", "internal/tools/stub"},
			alias: "xssh",
			why:   "only the ssh package speaks SSH, and the alias keeps the two packages apart for readers"},
		{path: "html/template", why: templates},
		{path: "text/template", why: templates},
		{path: "C", folders: []string{"gpu/nvml", "ring/capi", "ring/internal/nccl"}, why: cgo},
		{path: "github.com/NVIDIA/go-nvml", folders: []string{"gpu/nvml"}, why: cgo},
	}
}

// maxPackage is how many lines a package may have, without its tests.
const maxPackage = 4000

// topLevel lists the names allowed at the top of the repository besides those that start with a
// dot. The last ones are build outputs.
func topLevel() []string {
	return strings.Fields("cmd launcher hostfile ssh ring gpu examples docs internal " +
		"go.mod go.sum Makefile README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE bin lib dist")
}

// below reports whether folder is root or inside it.
func below(folder, root string) bool {
	return folder == root || strings.HasPrefix(folder, root+"/")
}

// layerOf returns the most specific row for a folder.
func layerOf(folder string) (layer, bool) {
	var best layer
	for _, l := range layers() {
		if below(folder, l.folder) && len(l.folder) > len(best.folder) {
			best = l
		}
	}
	return best, best.folder != ""
}

// source is one parsed file. Its name is relative to the module's root.
type source struct {
	name string
	fset *token.FileSet
	file *ast.File
}

func (s source) folder() string { return path.Dir(s.name) }
func (s source) isTest() bool   { return strings.HasSuffix(s.name, "_test.go") }

// check returns every way in which one file breaks the rules.
func check(name, text string) []string {
	s := source{name: name, fset: token.NewFileSet()}
	var err error
	if s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|
		parser.SkipObjectResolution); err != nil {
		return []string{err.Error()}
	}
	return slices.Concat(s.imports(), s.globals(), s.embeddings())
}

// embeddings finds buffers in whose bounds io.Copy does not believe: it calls the buffer's ReadFrom
// instead of the struct's Write.
func (s source) embeddings() (faults []string) {
	const why = "an embedded buffer has ways in that bypass the struct's own Write; give it a name"
	if s.isTest() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		record, is := n.(*ast.StructType)
		if !is {
			return true
		}
		for _, field := range record.Fields.List {
			kind := field.Type
			if pointer, is := kind.(*ast.StarExpr); is {
				kind = pointer.X
			}
			if of, is := kind.(*ast.SelectorExpr); is && len(field.Names) == 0 {
				switch name := fmt.Sprintf("%s.%s", of.X, of.Sel); name {
				case "bytes.Buffer", "strings.Builder", "bufio.Writer":
					faults = append(faults, s.fault(field, why, "a struct embeds %s", name))
				}
			}
		}
		return true
	})
	return faults
}

// fault formats where something is wrong, what, and why the rule exists.
func (s source) fault(at ast.Node, why, format string, args ...any) string {
	return fmt.Sprintf("%s: %s: %s", s.fset.Position(at.Pos()), fmt.Sprintf(format, args...), why)
}

func (s source) imports() []string {
	own, ok := layerOf(s.folder())
	if !ok {
		return []string{fmt.Sprintf("%s: folder %s has no row in the import table: every folder says what it may "+
			"import, and why", s.name, s.folder())}
	}
	var faults []string
	for _, spec := range s.file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if folder, ok := strings.CutPrefix(imported, module+"/"); ok {
			if !s.mayImport(own, folder) {
				faults = append(faults, s.fault(spec, own.why, "%s must not import %s", own.folder, folder))
			}
			continue
		}
		for _, o := range outsiders() {
			if !below(imported, o.path) {
				continue
			}
			if !slices.ContainsFunc(o.folders, func(f string) bool { return below(s.folder(), f) }) {
				faults = append(faults, s.fault(spec, o.why, "%s must not import %s", own.folder, imported))
			}
			if imported == o.path && o.alias != "" && (spec.Name == nil || spec.Name.Name != o.alias) {
				faults = append(faults, s.fault(spec, o.why, "import %s under the name %s", imported, o.alias))
			}
		}
	}
	return faults
}

// mayImport applies a row. Tests may also use everything internal, since they combine what the
// packages keep apart.
func (s source) mayImport(own layer, folder string) bool {
	theirs, _ := layerOf(folder)
	if theirs.folder == own.folder {
		// Examples share a row, but each stands alone.
		return own.folder != "examples" || below(folder, strings.Join(strings.SplitN(s.folder(), "/", 3)[:2], "/"))
	}
	may := own.may
	if s.isTest() {
		may = slices.Concat(may, own.tests, []string{"internal/..."})
		if below(own.folder, "cmd/gorun") {
			may = append(may, "cmd/gorun/internal/...")
		}
	}
	return slices.ContainsFunc(may, func(m string) bool {
		root, all := strings.CutSuffix(m, "/...")
		return folder == m || all && below(folder, root)
	})
}

// globals finds code that runs before main and variables that outlive a call.
func (s source) globals() []string {
	const (
		whyVar = "a package-level variable is shared by everyone who runs in the process; pass it, or make it a " +
			"constant or a function"
		whyInit = "init runs unasked, before main and in every test"
	)
	var faults []string
	if s.isTest() {
		return nil
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == "init" && d.Recv == nil {
				faults = append(faults, s.fault(d, whyInit, "function init"))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR && !s.constant(d, v) {
					faults = append(faults, s.fault(v, whyVar, "variable %s", v.Names[0].Name))
				}
			}
		}
	}
	return faults
}

// constant reports whether a package-level variable never changes: a sentinel error, an assertion
// that a type has an interface, or an embedded file.
func (s source) constant(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
			return strings.HasPrefix(c.Text, "//go:embed ")
		}) {
			return true
		}
	}
	if !slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name != "_" }) {
		return true
	}
	return len(v.Values) == len(v.Names) && !slices.ContainsFunc(v.Values, func(value ast.Expr) bool {
		return !isErrorsNew(value)
	})
}

func isErrorsNew(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "errors" && sel.Sel.Name == "New"
}

// tooLarge returns packages that are too large without a reason, and reasons without such a
// package. lines is by folder.
func tooLarge(lines map[string]int, table []layer) (faults []string) {
	needed := map[string]bool{}
	for folder, n := range lines {
		if n <= maxPackage {
			continue
		}
		own, _ := layerOf(folder)
		needed[own.folder] = true
		i := slices.IndexFunc(table, func(l layer) bool { return l.folder == own.folder })
		if i < 0 || table[i].large == "" {
			faults = append(faults, fmt.Sprintf("%s has %d lines, more than %d: a package has one reason to change; "+
				"split it, or give the reason in the import table", folder, n, maxPackage))
		}
	}
	for _, l := range table {
		if l.large != "" && !needed[l.folder] {
			faults = append(faults, fmt.Sprintf("row %q has a reason for a large package, and none is", l.folder))
		}
	}
	return faults
}
