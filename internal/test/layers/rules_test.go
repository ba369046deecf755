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
		{folder: "hostfile", why: leaf},
		{folder: "ssh", why: leaf + "; it knows nothing of ranks"},
		{folder: "gpu", why: leaf},
		{folder: "gpu/nvml", may: []string{"gpu"}, why: "it only fills in gpu's types"},
		{folder: "internal/rankenv", why: leaf},
		{folder: "internal/wire", may: []string{"internal/rankenv"},
			why: "the stream carries jobs and knows nobody who sends them"},
		{folder: "internal/release", why: leaf},
		{folder: "internal/secure", why: "it authenticates whoever shares a key, and knows neither ranks' calls nor " +
			"files"},
		{folder: "internal/flight", why: leaf + "; it is pure: the bytes of a dump in, collectives out"},
		{folder: "internal/ras", why: leaf + "; it speaks a protocol of NCCL over a connection that it is given"},
		{folder: "internal/recorder", may: []string{"internal/release"}, why: leaf +
			"; ranks write it, and agents read it"},
		{folder: "internal/trust", why: leaf},
		{folder: "internal/workdir", may: []string{"internal/relay", "internal/trust", "internal/wire"},
			why: "it is handed the connection through which a folder is brought to a host"},
		{folder: "internal/relay", may: []string{"internal/secure", "internal/wire"},
			why: "it is handed the connections of launcher and agents"},
		{folder: "internal/pyenv", may: []string{"internal/relay", "internal/trust", "internal/wire"},
			why: "it packs and unpacks folders, whoever brings them"},
		{folder: "internal/memexec", why: leaf},
		{folder: "internal/buildid", why: leaf},
		{folder: "internal/kv", may: []string{"internal/rankenv"},
			why: "the store serves whoever asks and knows nobody who does"},
		{folder: "internal/pmi", why: "it serves PMI-1 over any store and any socket"},
		{folder: "internal/pmix", why: "it serves PMIx over any store, and is told how to start its helper"},
		{folder: "internal/linkage", why: leaf},
		{folder: "ring", large: "the public types Comm, Queue and Device share calls, errors and one end; below ring " +
			"each would need a second copy of its API",
			may: []string{"internal/rankenv", "internal/recorder", "internal/secure", "ring/internal/..."},
			why: "programs link ring, and must not get the launcher with it"},
		{folder: "ring/capi", may: []string{"ring"}, why: "C sees what Go programs see"},
		{folder: "ring/python", why: "it is Python, and its tests run it from outside"},
		{folder: "ring/internal/stall", may: []string{"internal/release", "ring/internal/engine"},
			why: "it decides on positions of calls, and does not read them"},
		{folder: "ring/internal/engine", may: []string{"internal/secure", "ring/internal/..."},
			why: "it runs calls on raw bytes, and knows neither the job nor typed buffers"},
		{folder: "ring/internal", may: []string{"internal/rankenv", "internal/release", "internal/secure"},
			why: "ring is built on it, not the other way round"},
		{folder: "internal/prose", why: leaf},
		{folder: "internal/topology", may: []string{"internal/prose"}, why: leaf},
		{folder: "internal/contain", why: leaf},
		{folder: "internal/elastic", may: []string{"hostfile", "internal/prose", "internal/wire"},
			why: "it decides, and is told of hosts and processes; of the hostfile it uses the grammar, of the wire " +
				"the exit codes"},
		{folder: "internal/gloo", why: leaf + "; it is handed the store"},
		{folder: "internal/agent", may: []string{"internal/agent/errand", "internal/agent/inspect",
			"internal/agent/link", "internal/agent/lookup", "internal/agent/memory", "internal/agent/seat",
			"internal/agent/services", "internal/agent/spawn", "internal/agent/tool", "internal/contain",
			"internal/linkage", "internal/memexec", "internal/pyenv", "internal/rankenv", "internal/relay",
			"internal/topology", "internal/wire", "internal/workdir"}, tests: []string{"gpu"},
			why: "the agent hears of its job only through the wire"},
		{folder: "internal/agent/errand", may: []string{"internal/agent/terminal", "internal/wire", "gpu",
			"internal/agent/meter"}, why: "it is handed the processes that it is about"},
		{folder: "internal/agent/inspect", may: []string{"internal/contain", "internal/flight", "internal/ras",
			"internal/recorder", "internal/stacks"}, why: "it looks at processes, and does not care who started them"},
		{folder: "internal/stacks", may: []string{"internal/flight", "internal/prose", "internal/ras",
			"internal/recorder"}, why: "it is pure: reports in, a text out"},
		{folder: "internal/agent/lookup", may: []string{"internal/wire"}, why: "it looks for files, and starts none"},
		{folder: "internal/agent/spawn", may: []string{"internal/kv", "internal/wire"},
			why: "it decides which ranks may be added, and starts none"},
		{folder: "internal/callback", may: []string{"internal/frames", "internal/secure"},
			why: "it joins both ends, and knows neither jobs nor what started them"},
		{folder: "internal/agent/resident", may: []string{"internal/frames", "internal/prose", "internal/wire"},
			why: "it starts agents, and is told how; jobs come to the agents"},
		{folder: "internal/agent/link", why: leaf},
		{folder: "internal/agent/terminal", why: leaf},
		{folder: "internal/agent/tool", may: []string{"internal/wire"},
			why: "it is handed the way to find a program, and starts none"},
		{folder: "internal/agent/meter", may: []string{"internal/recorder", "internal/wire"},
			why: "it reads counters of processes that it is told of"},
		{folder: "internal/agent/memory", may: []string{"internal/contain", "internal/wire"},
			why: "it reads counters, and knows no rank"},
		{folder: "internal/agent/seat", may: []string{"gpu", "internal/memexec", "internal/prose", "internal/rankenv",
			"internal/topology", "internal/trust", "internal/wire"},
			why: "it assigns what this host has, and serves nobody"},
		{folder: "internal/agent/services", may: []string{"internal/agent/spawn", "internal/contain", "internal/gloo",
			"internal/kv", "internal/linkage", "internal/memexec", "internal/pmi", "internal/pmix", "internal/rankenv",
			"internal/wire"}, why: "it answers ranks over the wire, and starts none"},
		{folder: "launcher/plan", may: []string{"hostfile", "internal/prose", "internal/rankenv"},
			why: "it is pure: hosts and a request in, ranks on hosts out"},
		{folder: "launcher/spawn", may: []string{"internal/prose", "internal/wire", "launcher/plan",
			"launcher/session"}, tests: []string{"hostfile"},
			why: "it places ranks, and is handed the sessions with their hosts"},
		{folder: "launcher/connect", may: []string{"hostfile", "internal/prose", "launcher/session"},
			why: "it is handed its hosts, and knows nothing of ranks"},
		{folder: "launcher/core", may: []string{"internal/kv", "internal/prose", "internal/wire", "launcher/plan"},
			tests: []string{"hostfile", "launcher/session"},
			why:   "it is pure: events in, actions out, whoever brings them"},
		{folder: "launcher/route", may: []string{"hostfile", "internal/prose", "internal/rankenv", "internal/wire",
			"launcher/plan"}, why: "it is pure, and is told of addresses"},
		{folder: "launcher/output", tests: []string{"hostfile"},
			may: []string{"internal/prose", "internal/trust", "internal/wire", "launcher/plan"},
			why: "it writes bytes of ranks, whoever brings them; of the wire it uses the numbers of streams"},
		{folder: "launcher/survey", may: []string{"gpu", "hostfile", "internal/prose", "launcher/connect",
			"launcher/session"}, why: "it asks hosts, and runs no job"},
		{folder: "launcher/deliver", may: []string{"hostfile", "internal/relay", "internal/wire", "launcher/connect",
			"launcher/plan", "launcher/route", "launcher/session", "launcher/survey"},
			why: "it brings files to hosts, and runs no job"},
		{folder: "launcher/session", may: []string{"gpu", "hostfile", "internal/buildid", "internal/kv",
			"internal/prose", "internal/pyenv", "internal/relay", "internal/wire", "internal/workdir", "launcher/plan"},
			why: "it knows one host, and not the job"},
		{folder: "launcher", may: []string{"hostfile", "gpu", "internal/elastic", "internal/kv", "internal/pmi",
			"internal/prose", "internal/wire", "internal/workdir", "launcher/..."},
			why: "the launcher is handed its hosts, and does not care how they are reached"},
		{folder: "internal/frames", why: leaf},
		{folder: "internal/keep", may: []string{"internal/agent/resident", "internal/control", "internal/frames",
			"internal/wire"}, why: "it is handed connections, and knows neither SSH nor jobs"},
		{folder: "internal/control", may: []string{"internal/prose", "internal/trust"},
			why: "it serves and finds jobs, and knows neither what runs them nor what prints them"},
		{folder: "internal/watch", may: []string{"internal/wire", "launcher/session"},
			tests: []string{"hostfile", "launcher/plan"}, why: "it asks hosts for numbers, whoever wants them"},
		{folder: "internal/watch/metrics", may: []string{"internal/trust", "internal/watch"},
			why: "it is handed samples, and writes them"},
		{folder: "internal/watch/record", may: []string{"internal/trust", "internal/watch"},
			why: "it is handed samples, and keeps them"},
		{folder: "internal/watch/straggler", may: []string{"internal/watch"},
			why: "it is handed samples, and finds ranks"},
		{folder: "internal/report", may: []string{"internal/prose", "internal/watch/record"},
			why: "it writes a page about a record, and knows no running job"},
		{folder: "internal/doctor", may: []string{"gpu", "internal/prose"},
			why: "it is pure: measurements in, findings out"},
		{folder: "internal/doctor/probe", may: []string{"gpu", "internal/doctor", "internal/rankenv", "internal/secure",
			"internal/topology"}, why: "it measures, and judges nothing"},
		{folder: "internal/cli/examine", may: []string{"gpu", "hostfile", "internal/cli/ui", "internal/cli/usage",
			"internal/doctor", "internal/doctor/probe", "internal/prose", "launcher", "launcher/plan", "ssh"},
			why: "it is handed hosts and connections, and runs probes there"},
		{folder: "internal/cli/files", may: []string{"hostfile", "internal/cli/ui", "internal/cli/usage",
			"internal/prose", "internal/pyenv", "internal/relay", "internal/wire", "internal/workdir", "launcher",
			"launcher/deliver", "launcher/route", "launcher/survey"},
			why: "it is handed hosts and connections, and brings files there"},
		{folder: "internal/cli/usage", why: leaf},
		{folder: "internal/cli/mpir", may: []string{"internal/cli/sibling", "launcher", "launcher/plan"},
			tests: []string{"hostfile"}, why: "it is told the processes of a job, and shows them in a program of C"},
		{folder: "internal/cli/panes", why: "it drives tmux, and is told which ranks to show"},
		{folder: "internal/cli/tool", tests: []string{"hostfile"}, may: []string{"internal/cli/usage", "launcher",
			"launcher/plan"}, why: "it is pure: flags, plan and programs in, commands of ranks out"},
		{folder: "internal/cli/rankfile", may: []string{"internal/cli/usage"}, why: "text in, places of ranks out"},
		{folder: "internal/cli/exitcode", may: []string{"internal/cli/usage", "launcher"},
			why: "one table turns errors into exit codes"},
		{folder: "internal/cli/settings", may: []string{"hostfile", "internal/control", "launcher", "launcher/...",
			"internal/cli/dialect", "internal/cli/tool", "internal/cli/usage", "internal/elastic", "internal/prose",
			"internal/transport", "internal/trust", "internal/wire"},
			why: "it says what the user wants, and does nothing"},
		{folder: "internal/cli/hosts", may: []string{"hostfile", "internal/cli/rankfile", "internal/cli/settings",
			"internal/cli/ui", "internal/cli/usage", "internal/prose", "internal/topology", "internal/transport",
			"internal/transport/srun"}, why: "it finds hosts and connects to none"},
		{folder: "internal/cli/ui", tests: []string{"hostfile"},
			may: []string{"gpu", "launcher", "launcher/...", "internal/bench", "internal/cli/exitcode",
				"internal/cli/usage", "internal/prose", "internal/elastic", "internal/trust", "internal/wire"},
			why: "it writes what others decide"},
		{folder: "internal/cli/jobs", may: []string{"hostfile", "launcher", "launcher/output", "internal/cli/exitcode",
			"internal/cli/ui", "internal/cli/usage", "internal/control", "internal/frames", "internal/prose",
			"internal/stacks", "internal/wire"}, why: "it talks to running jobs, and starts none"},
		{folder: "internal/cli/container", may: []string{"internal/rankenv"},
			why: "it is given a program and variables, and reads no settings"},
		{folder: "internal/cli/job", may: []string{"hostfile", "internal/cli/container", "internal/control",
			"internal/frames", "launcher", "launcher/...", "internal/cli/dialect", "internal/cli/exitcode",
			"internal/cli/files", "internal/cli/hosts", "internal/cli/mpir", "internal/cli/panes",
			"internal/cli/settings", "internal/cli/tool", "internal/cli/ui", "internal/cli/usage", "internal/prose",
			"internal/elastic", "internal/rankenv", "internal/stacks", "internal/transport", "internal/transport/srun",
			"internal/trust", "internal/wire", "internal/workdir", "internal/watch", "internal/watch/record",
			"internal/cli/publish", "internal/cli/sibling", "internal/cli/agents", "internal/buildid"},
			why: "it turns settings into a job of the launcher"},
		{folder: "internal/cli/kept", may: []string{"internal/cli/agents", "internal/cli/exitcode",
			"internal/cli/hosts", "internal/cli/job", "internal/cli/settings", "internal/cli/ui", "internal/cli/usage",
			"internal/control", "internal/keep", "internal/prose", "internal/transport", "internal/transport/kept",
			"launcher", "launcher/connect", "launcher/session", "ssh"},
			why: "it joins a keeper with the command line, and runs no job"},
		{folder: "internal/cli/sibling", may: []string{"internal/cli/usage", "internal/memexec", "internal/trust",
			"internal/wire"}, why: "it finds files beside gorun, and runs none"},
		{folder: "internal/cli/agents", may: []string{"internal/cli/sibling", "internal/cli/usage", "internal/buildid",
			"launcher"}, why: "it finds executables, and starts none"},
		{folder: "internal/cli/publish", may: []string{"internal/cli/settings", "internal/cli/ui", "internal/cli/usage",
			"internal/watch", "internal/watch/metrics", "internal/watch/record", "internal/watch/straggler",
			"launcher"}, why: "it is handed a watch, and offers it to others"},
		{folder: "internal/cli/top", may: []string{"internal/cli/ui", "internal/cli/usage", "internal/control",
			"internal/prose", "internal/stacks", "internal/watch", "internal/watch/straggler"},
			tests: []string{"internal/recorder"}, why: "it shows samples, and takes none"},
		{folder: "internal/transport", may: []string{"hostfile", "launcher", "ssh", "internal/cli/usage",
			"internal/control", "internal/keep", "internal/transport/kept", "internal/transport/rsh",
			"internal/transport/srun"}, why: "it joins launcher and ssh, and every other way to a host"},
		{folder: "internal/transport/kept", may: []string{"internal/control", "internal/frames", "internal/keep",
			"internal/prose", "ssh"}, why: "a keeper takes the place of a connection; of ssh it uses the settings " +
			"and the check of host keys"},
		{folder: "internal/transport/rsh", may: []string{"ssh"},
			why: "a program takes the place of a connection; of ssh it uses the quoting and the upload by a shell"},
		{folder: "internal/transport/srun", may: []string{"hostfile", "launcher", "ssh", "internal/agent/resident",
			"internal/callback", "internal/cli/usage", "internal/prose"}, why: "one way to a host"},
		{folder: "internal/test/files", why: "tests of any package make files"},
		{folder: "internal/test/golden", may: []string{"internal/cli/usage"},
			why: "tests of any package compare texts"},
		{folder: "internal/test/documents", why: "it reads documents"},
		{folder: "internal/test/environ", why: leaf},
		{folder: "internal/test/simulate", why: leaf},
		{folder: "internal/test/e2e", tests: []string{"gpu", "hostfile"},
			why: "it drives the built command from outside"},
		{folder: "internal/test/e2e/wedge", may: []string{"ring"},
			why: "it is a program as users write them, that hangs"},
		{folder: "internal/test/attacks", may: []string{"internal/test/lab"},
			why: "it attacks the built command from outside"},
		{folder: "internal/test/command", may: []string{"internal/test/golden", "internal/test/lab"},
			why: "it starts the built command for the tests of several folders"},
		{folder: "internal/cli/manual", why: leaf},
		{folder: "internal/cli/dialect", may: []string{"internal/cli/usage"},
			why: "it turns words into words, and knows nothing of what our flags do"},
		{
			folder: "cmd/gorun",
			may: []string{"gpu", "hostfile", "internal/agent", "internal/agent/inspect", "internal/agent/resident",
				"internal/bench", "internal/buildid", "internal/cli/agents", "internal/cli/dialect",
				"internal/cli/examine", "internal/cli/exitcode", "internal/cli/files", "internal/cli/hosts",
				"internal/cli/job", "internal/cli/jobs", "internal/cli/kept", "internal/cli/manual",
				"internal/cli/settings", "internal/cli/sibling", "internal/cli/top", "internal/cli/ui",
				"internal/cli/usage", "internal/control", "internal/doctor", "internal/doctor/probe", "internal/prose",
				"internal/report", "internal/transport", "internal/transport/srun", "internal/trust",
				"internal/watch/record", "internal/wire", "launcher", "launcher/survey", "ssh"},
			why: "the command joins what the command line means with what does it",
		},
		{folder: "cmd/gorun-gpu", may: []string{"gpu", "gpu/nvml"},
			why: "a crash of the driver's library must take nothing else with it"},
		{folder: "cmd/gorun-bench", may: []string{"internal/bench"},
			why: "it is a rank of a benchmark and nothing else"},
		{folder: "internal/test/link", why: "it carries frames, whatever is in them"},
		{folder: "internal/test/peers", may: []string{"internal/bench", "internal/test/link"},
			why: "it times gorun and its peers from outside, by the methods of gorun bench"},
		{folder: "internal/test/gpucheck", why: "it is Python, and looks at gorun from outside"},
		{folder: "internal/test/lab", why: "the lab tests gorun from outside, so it shares no code with it"},
		{folder: "internal/test/faults", may: []string{"internal/test/lab"},
			why: "it does harm to gorun and looks at it from outside, so it shares no code with it"},
		{folder: "internal/test/faults/rank", may: []string{"ring"},
			why: "it is a program as users write them, for ranks that harm is done to"},
		{folder: "internal/test/faults/sums", may: []string{"ring"},
			why: "it is a program as users write them, for hosts of two kinds"},
		{folder: "internal/bench", may: []string{"ring"}, why: "it times what every program can call"},
		{folder: "internal/test/ringtest", may: []string{"ring", "internal/kv", "internal/rankenv"},
			why: "it plays the agent to ring's tests"},
		{folder: "internal/test/fake", may: []string{"internal/wire"}, why: "it plays hosts to tests of the launcher"},
		{folder: "internal/test/stub", may: []string{"internal/buildid", "internal/test/fake", "internal/wire"},
			why: "it plays thousands of hosts over real SSH to the built command"},
		{folder: "internal/test/style", why: "it reads sources, it does not link them"},
		{folder: "internal/test/layers", why: "it reads sources, it does not link them"},
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
		{path: "github.com/spf13", folders: []string{"cmd", "internal/cli"},
			why: "libraries do not parse command lines"},
		{path: "golang.org/x/crypto/ssh", folders: []string{"ssh", "internal/test/lab", "internal/test/stub"},
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
	return slices.Concat(s.imports(), s.globals())
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
