package layers

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/documents"
	"github.com/gorun/gorun/internal/test/must"
)

// listeners says, for each file of the product that opens a port or a socket for others or serves
// HTTP, what bounds the connections of strangers there.
func listeners() map[string]string {
	return map[string]string{
		"cmd/gorun/internal/jobs/forward.go":     "other users are closed at once, and there are 24 at most",
		"internal/bench/wire.go":                 "admit.Pending, until the nonce is shown",
		"internal/doctor/probe/probe.go":         "secure.Authenticator",
		"internal/files/relay/receive.go":        "secure.Authenticator",
		"internal/host/services/mpi.go":          "other users are closed at once",
		"internal/mpi/gloo/serve.go":             "other users are closed at once, and there are 1024 at most",
		"internal/net/admit/http.go":             "NewServer: headers of HTTP, without a log",
		"internal/net/callback/listener.go":      "admit.Pending, until the hello",
		"internal/net/kv/server.go":              "admit.Pending, until a token is shown",
		"internal/net/secure/endpoint.go":        "admit.Pending, until the handshake is over",
		"internal/sight/control/socket.go":       "other users are closed at once",
		"internal/sight/watch/metrics/server.go": "admit.Pending, always",
	}
}

// opening finds calls that open a listener, and servers of HTTP.
var opening = regexp.MustCompile(`net\.Listen(TCP|Unix|Packet|UDP)?\(|net\.ListenConfig|net\.FileListener|` +
	`unix\.Listen\(|\.ListenAll\(|http\.Server\{|\.ListenAndServe`)

// programs says, for each file of the product that starts a program, who has chosen it. No other
// user has, and no file that the user only reads.
func programs() map[string]string {
	return map[string]string{
		"cmd/gorun/hidden.go":                    "gorun-bench, which installed.Path checks",
		"cmd/gorun/internal/job/detach.go":       "gorun itself",
		"cmd/gorun/internal/job/onend.go":        "--on-end",
		"cmd/gorun/internal/mpir/mpir.go":        "gorun-mpir, which installed.Path checks",
		"cmd/gorun/internal/panes/panes.go":      "tmux in PATH",
		"gpu/programs.go":                        "gorun-gpu, in memory or checked, and nvidia-smi in PATH",
		"internal/doctor/probe/versions.go":      "python and mpirun in PATH, in the folder /",
		"internal/elastic/script.go":             "the discovery script",
		"internal/host/agent/guard_linux.go":     "gorun itself",
		"internal/host/agent/processes_linux.go": "the job's program, tools and commands, and helpers in memory",
		"internal/host/inspect/native.go":        "debuggers, which trust.Check checks",
		"internal/host/linkage/linkage.go":       "the linker of the program, or of one that trust.Check checks",
		"internal/host/resident/stock.go":        "gorun itself",
		"internal/host/warm/warm.go":             "the job's interpreter",
		"internal/net/kube/kubeconfig.go":        "the program of a kubeconfig, which trust.Check checks",
		"launcher/session/local.go":              "gorun itself",
		"launcher/transport/rsh/run.go":          "--launch-agent, ssh, kubectl and the like in PATH",
		"launcher/transport/srun/gpus.go":        "scontrol beside srun",
		"launcher/transport/srun/srun.go":        "srun in PATH",
		"launcher/transport/srun/together.go":    "srun in PATH",
		"ssh/internal/config/ask.go":             "ssh in PATH",
		"ssh/hostkey_command.go":                 "KnownHostsCommand",
		"ssh/internal/knownhosts/revoked.go":     "ssh-keygen in PATH",
		"ssh/proxy.go":                           "ProxyCommand",
	}
}

// lookers says, for each file of the product that opens what belongs to a process in /proc, such as
// its descriptors and its environment, why it obeys no process of another user.
func lookers() map[string]string {
	return map[string]string{
		"internal/host/agent/tool.go":            "it reads what the kernel says of a rank's state",
		"internal/host/inspect/pulse.go":         "it reads what the kernel says of CPU time",
		"ring/internal/shm/wait_linux.go":        "it reads what the kernel says of a start",
		"internal/host/process/process_linux.go": "it opens only processes of this user",
		"internal/host/services/sever_linux.go":  "process.Open has opened the process before",
	}
}

// dialers says, for each file of the product that connects to something, who has chosen the
// address. Another host or rank has chosen none of this host's own services.
func dialers() map[string]string {
	return map[string]string{
		"internal/bench/wire.go":               "rank 0, by secure.Dialable",
		"internal/doctor/probe/interfaces.go":  "another host, and nothing is sent",
		"internal/doctor/probe/pairs.go":       "another host, by secure.Dialable",
		"internal/files/relay/link.go":         "another host, by secure.Dialable",
		"internal/host/errand/dial.go":         "gorun forward",
		"internal/host/inspect/ras.go":         "the kernel: a process of this user listens there",
		"internal/mpi/gloo/notice.go":          "a process of this host, which listens there",
		"internal/net/callback/dial.go":        "gorun, by the ticket",
		"internal/net/secure/authenticator.go": "another member, by the Dialable of the callers",
		"internal/net/secure/dial.go":          "another rank, by Dialable",
		"internal/net/secure/endpoint.go":      "the agent, and nothing is sent",
		"internal/sight/control/socket.go":     "the user's own folder",
		"ring/internal/boot/client.go":         "the agent",
		"ssh/auth.go":                          "SSH_AUTH_SOCK and IdentityAgent",
		"ssh/dial.go":                          "the user's hosts",
	}
}

// A new listener says what bounds the connections of strangers, a new start of a program who has
// chosen it, what looks into other processes whose they are, and what connects who has chosen the
// address.
func TestDoorsSayWhoMayEnter(t *testing.T) {
	for what, tt := range map[string]struct {
		rows   map[string]string
		found  *regexp.Regexp
		advice string
	}{
		"listeners": {listeners(), opening, "bound its connections by internal/net/admit"},
		"programs": {programs(), regexp.MustCompile(`exec\.Command(Context)?\(|exec\.Cmd\{|\.ForkExec\(|` +
			`os\.StartProcess\(|syscall\.Exec\(`), "let internal/files/trust check what another user can choose"},
		"lookers": {lookers(), regexp.MustCompile(`PidfdGetfd\(|"/proc/(%d/(fd|environ|maps|mem|cwd|exe|root)|" ?\+)`),
			"open the process by internal/host/process"},
		"dialers": {dialers(), regexp.MustCompile(`net\.Dial\w*\(|\bnet\.Dialer\b|unix\.Connect\(`),
			"let secure.Dialable check what another host or rank can choose"},
	} {
		opens := openers(t, tt.found)
		for name, line := range opens {
			if tt.rows[name] == "" {
				t.Errorf("%s: %s\nhas no row in %s: %s, and add one here", name, line, what, tt.advice)
			}
		}
		for name := range tt.rows {
			if opens[name] == "" {
				t.Errorf("%s has nothing for %s, or is gone: remove its row", name, what)
			}
		}
	}
}

// Every package that opens a listener or memory that others reach has a row in the table of doors.
func TestEveryListenerHasARow(t *testing.T) {
	sources := map[string]bool{}
	for _, row := range documents.TableOfDoors(documents.Text(t, root, "docs/security.md")) {
		sources[row.Source] = true
	}
	opens := openers(t, regexp.MustCompile(
		`(net|ListenConfig\{.*|lc|config)\.Listen\(|ListenUnix\(|unix\.(Bind|MemfdCreate|Mkfifo)\(`))
	for name := range opens {
		if in := path.Dir(name); !sources[in] {
			t.Errorf("%s opens a door, and docs/security.md has no row for %s", name, in)
		}
	}
	must.That(t, len(opens) >= 10, "only %d files open doors", len(opens))
}

// openers returns the files of the product that match, each with a line that does.
func openers(t *testing.T, pattern *regexp.Regexp) map[string]string {
	t.Helper()
	found := map[string]string{}
	eachSource(t, func(name, text string) {
		if below(name, "internal/test") || below(name, "internal/tools") || strings.HasSuffix(name, "_test.go") {
			return
		}
		for line := range strings.Lines(text) {
			if code, _, _ := strings.Cut(line, "//"); pattern.MatchString(code) {
				found[name] = strings.TrimSpace(line)
			}
		}
	})
	return found
}
