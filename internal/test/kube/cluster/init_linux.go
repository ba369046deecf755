package cluster

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ready is what the init prints when the nodes are.
const ready = "ready"

// startLimit bounds the start of a cluster. On an idle machine it takes half a minute.
const startLimit = 5 * time.Minute

// Main runs the hidden commands of a cluster's own processes, and returns if argv is none.
func Main(argv []string) {
	if len(argv) < 2 {
		return
	}
	var err error
	switch argv[1] {
	case InitCommand:
		err = runInit(argv[2], argv[3], argv[4], argv[5:])
	case NodeCommand:
		err = runNode(argv[2:])
	default:
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "kube: %s: %v\n", argv[1], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// namespaces are those of the control plane, and of each node.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
	syscall.CLONE_NEWIPC

// Addresses: the control plane is the gateway of the nodes, and has the service address of the API
// server, so that pods reach it without kube-proxy.
const (
	controlAddr = "10.99.0.1"
	serviceAddr = "10.96.0.1"
	nodeNet     = "10.99.0."
	podNet      = "10.244."
)

func nodeName(number int) string { return "node" + strconv.Itoa(number) }
func nodeAddr(number int) string { return nodeNet + strconv.Itoa(10+number) }
func podRange(number int) string { return podNet + strconv.Itoa(number) + ".0/24" }

// control is the control plane, seen by the cluster's init.
type control struct {
	dir, parts string
	nodes      int
	images     []string
	token      string
	ended      chan error // one for each daemon that has ended
}

// runInit is process 1 of the cluster: it starts everything, and ends with its standard input.
func runInit(dir, parts, nodes string, images []string) error {
	n, err := strconv.Atoi(nodes)
	if err != nil {
		return err
	}
	c := &control{
		dir:    dir,
		parts:  parts,
		nodes:  n,
		images: images,
		ended:  make(chan error, 16),
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(closed)
		cancel()
	}()
	for _, step := range []func(context.Context) error{c.mounts, c.network, c.keys, c.storeAndServer, c.controllers,
		c.startNodes, c.awaitNodes, c.operator} {
		if err := step(ctx); err != nil {
			fmt.Println(err)
			return err
		}
	}
	fmt.Println(ready)
	select {
	case <-closed:
		return nil
	case err := <-c.ended:
		return err
	}
}

func (c *control) mounts(context.Context) error {
	return errors.Join(
		unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		unix.Sethostname([]byte("control")),
	)
}

func (c *control) network(ctx context.Context) error {
	lines := []string{
		"link set lo up",
		"link add br0 type bridge",
		"addr add " + controlAddr + "/24 dev br0",
		"addr add " + serviceAddr + "/32 dev lo",
		"link set br0 up",
	}
	for number := 1; number <= c.nodes; number++ {
		lines = append(lines, "route add "+podRange(number)+" via "+nodeAddr(number))
	}
	return forward(ctx, lines...)
}

// forward runs commands of iproute2, and lets this network pass packets on.
func forward(ctx context.Context, lines ...string) error {
	return errors.Join(ip(ctx, lines...), os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
}

// ip runs commands of iproute2 in one go.
func ip(ctx context.Context, lines ...string) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}

// keys writes the key of service accounts, and an administrator's token and kubeconfig.
func (c *control) keys(context.Context) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	token := make([]byte, 16)
	_, _ = rand.Read(token) // never fails
	c.token = hex.EncodeToString(token)
	config := fmt.Sprintf(kubeconfig, controlAddr, c.path("apiserver/apiserver.crt"), c.token)
	return errors.Join(
		os.WriteFile(c.path("sa.key"), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600),
		os.WriteFile(c.path("sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600),
		os.WriteFile(c.path("tokens.csv"), []byte(c.token+`,admin,1,"system:masters"`+"\n"), 0o600),
		os.WriteFile(c.path("kubeconfig"), []byte(config), 0o600),
		os.WriteFile(c.path("Corefile"), []byte(fmt.Sprintf(corefile, controlAddr, c.path("kubeconfig"))), 0o600),
	)
}

func (c *control) path(name string) string { return filepath.Join(c.dir, name) }

// daemon starts a component with the words of a line. Its output goes to DIR/NAME.log.
func (c *control) daemon(name, line string) error {
	log, err := os.Create(c.path(name + ".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(c.parts, "bin", name), c.words(line)...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.Dir = c.dir
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		err := cmd.Wait()
		said, _ := os.ReadFile(log.Name())
		c.ended <- fmt.Errorf("%s ended: %w: %s", name, err, said[max(0, len(said)-2000):])
	}()
	return nil
}

// gates are features that Kubernetes leaves off: groups of pods that are scheduled as a whole.
const gates = " --feature-gates GenericWorkload=true"

func (c *control) storeAndServer(ctx context.Context) error {
	if err := c.daemon("etcd", `
		--data-dir DIR/etcd --unsafe-no-fsync
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
		--listen-peer-urls http://127.0.0.1:2380`); err != nil {
		return err
	}
	if err := c.daemon("kube-apiserver", `
		--etcd-servers http://127.0.0.1:2379 --bind-address 0.0.0.0 --secure-port 443 --advertise-address `+controlAddr+`
		--cert-dir DIR/apiserver --token-auth-file DIR/tokens.csv --authorization-mode Node,RBAC
		--service-cluster-ip-range 10.96.0.0/16 --service-account-issuer https://kubernetes.default.svc
		--service-account-key-file DIR/sa.pub --service-account-signing-key-file DIR/sa.key
		--allow-privileged=true --profiling=false --kubelet-preferred-address-types InternalIP
		--runtime-config scheduling.k8s.io/v1beta1=true`+gates); err != nil {
		return err
	}
	return c.await(ctx, "the API server", func() bool { return c.get(ctx, "/readyz", nil) == nil })
}

func (c *control) controllers(context.Context) error {
	const login = ` --kubeconfig DIR/kubeconfig --authentication-kubeconfig DIR/kubeconfig
		--authorization-kubeconfig DIR/kubeconfig --bind-address 127.0.0.1 --leader-elect=false`
	return errors.Join(
		c.daemon("kube-controller-manager", login+` --cert-dir DIR/controllers --root-ca-file DIR/apiserver/apiserver.crt
			--service-account-private-key-file DIR/sa.key --node-monitor-grace-period=20s`+gates),
		c.daemon("kube-scheduler", login+" --cert-dir DIR/scheduler"+gates),
		c.daemon("coredns", "-conf DIR/Corefile"),
	)
}

// operator starts the MPI operator, which ends if its type of job is not known yet.
func (c *control) operator(ctx context.Context) error {
	for _, words := range []string{
		"apply --server-side -f PARTS/mpijobs.yaml",
		"create namespace mpi-operator",
	} {
		cmd := exec.CommandContext(ctx, filepath.Join(c.parts, "bin/kubectl"), c.words(words)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.path("kubeconfig"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", words, err, out)
		}
	}
	served := func() bool { return c.get(ctx, "/apis/kubeflow.org/v2beta1/mpijobs", nil) == nil }
	if err := c.await(ctx, "the type MPIJob", served); err != nil {
		return err
	}
	return c.daemon("mpi-operator", "-kubeConfig DIR/kubeconfig -kube-api-qps 50 -kube-api-burst 100")
}

// words splits a command line, in which DIR and PARTS stand for folders.
func (c *control) words(line string) []string {
	words := strings.Fields(line)
	fill := strings.NewReplacer("DIR", c.dir, "PARTS", c.parts)
	for i := range words {
		words[i] = fill.Replace(words[i])
	}
	return words
}

// startNodes starts the init of each node, and gives it an end of a cable to the bridge.
func (c *control) startNodes(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	groups, err := makeGroups(c.dir, c.nodes)
	if err != nil {
		return err
	}
	for number := 1; number <= c.nodes; number++ {
		if err := c.startNode(ctx, self, number, groups[number-1]); err != nil {
			return fmt.Errorf("start node %d: %w", number, err)
		}
	}
	return nil
}

func (c *control) startNode(ctx context.Context, self string, number int, groups []string) error {
	home := c.path(nodeName(number))
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(home, "node.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	argv := append([]string{NodeCommand, "join", home, c.parts, strconv.Itoa(number), c.path("kubeconfig"),
		strings.Join(groups, ":")}, c.images...)
	cmd := exec.Command(self, argv...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	cable, err := cmd.StdinPipe() // it closes when the cable is there
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // a lost node is no end of the cluster
	if err := os.WriteFile(filepath.Join(home, "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	link := "v" + strconv.Itoa(number)
	err = ip(ctx, fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, cmd.Process.Pid),
		"link set "+link+" master br0 up")
	return errors.Join(err, cable.Close())
}

// awaitNodes waits until all nodes are ready.
func (c *control) awaitNodes(ctx context.Context) error {
	return c.await(ctx, "the nodes", func() bool {
		var list struct {
			Items []struct {
				Status struct {
					Conditions []struct{ Type, Status string }
				}
			}
		}
		if c.get(ctx, "/api/v1/nodes", &list) != nil {
			return false
		}
		count := 0
		for _, node := range list.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == "Ready" && condition.Status == "True" {
					count++
				}
			}
		}
		return count == c.nodes
	})
}

func (c *control) await(ctx context.Context, what string, ok func() bool) error {
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready after %v", what, startLimit)
		case err := <-c.ended:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// get asks the API server.
func (c *control) get(ctx context.Context, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+controlAddr+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	client := http.Client{Transport: &http.Transport{
		// It has made its certificate itself, in this network of its own.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

//go:embed kubeconfig.yaml
var kubeconfig string

//go:embed Corefile
var corefile string
