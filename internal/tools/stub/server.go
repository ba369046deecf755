package stub

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	xssh "golang.org/x/crypto/ssh"
)

// Hosts are running stub hosts. Its methods may be called concurrently.
type Hosts struct {
	ConfigFile string // for gorun -F
	HostFile   string // for gorun --hostfile

	spec     Spec
	server   *xssh.ServerConfig
	listener net.Listener
	reached  atomic.Int64
	received atomic.Int64 // bytes, as is sent
	sent     atomic.Int64
	mu       sync.Mutex
	conns    map[net.Conn]bool // nil after Close
	wg       sync.WaitGroup
}

// Start starts the hosts of spec, named n00001 and so on, and writes what a client needs into dir.
func Start(dir string, spec Spec) (*Hosts, error) {
	h := &Hosts{
		ConfigFile: filepath.Join(dir, "ssh_config"),
		HostFile:   filepath.Join(dir, "hosts.txt"),
		spec:       spec,
		conns:      map[net.Conn]bool{},
	}
	own, err := newSigner(filepath.Join(dir, "host_key"))
	if err != nil {
		return nil, err
	}
	user, err := newSigner(filepath.Join(dir, "user_key"))
	if err != nil {
		return nil, err
	}
	allowed := string(user.PublicKey().Marshal())
	h.server = &xssh.ServerConfig{PublicKeyCallback: func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions,
		error) {
		if string(key.Marshal()) != allowed {
			return nil, fmt.Errorf("unknown key")
		}
		return nil, nil
	}}
	h.server.AddHostKey(own)
	if h.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if err := h.writeFiles(dir, own.PublicKey()); err != nil {
		h.listener.Close()
		return nil, err
	}
	h.wg.Go(h.accept)
	return h, nil
}

// newSigner writes a new private key to path.
func newSigner(path string) (xssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := xssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return xssh.NewSignerFromKey(private)
}

func (h *Hosts) writeFiles(dir string, key xssh.PublicKey) error {
	port := h.listener.Addr().(*net.TCPAddr).Port
	known := filepath.Join(dir, "known_hosts")
	config := fmt.Sprintf("Host n*\n  HostName 127.0.0.1\n  Port %d\n  HostKeyAlias stub\n  User stub\n  "+
		"IdentityFile %s\n  IdentitiesOnly yes\n"+
		"  IdentityAgent none\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking "+
		"yes\n  BatchMode yes\n",
		port, filepath.Join(dir, "user_key"), known)
	public := xssh.MarshalAuthorizedKey(key)
	var hosts, keys strings.Builder
	fmt.Fprintf(&keys, "stub %s", public)
	for i := range h.spec.Hosts { // as many lines as hosts, as a cluster's file has
		fmt.Fprintf(&hosts, "n%05d slots=%d\n", i+1, h.spec.Slots)
		fmt.Fprintf(&keys, "n%05d %s", i+1, public)
	}
	for path, text := range map[string]string{known: keys.String(), h.ConfigFile: config, h.HostFile: hosts.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Reached is how many agents were started, on any host.
func (h *Hosts) Reached() int { return int(h.reached.Load()) }

// Bytes is how much all hosts have received and sent, encrypted.
func (h *Hosts) Bytes() (received, sent int64) { return h.received.Load(), h.sent.Load() }

// counted counts the bytes of a host's connection.
type counted struct {
	net.Conn
	h *Hosts
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.h.received.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.h.sent.Add(int64(n))
	return n, err
}

// Close ends all hosts.
func (h *Hosts) Close() {
	h.listener.Close()
	h.mu.Lock()
	for conn := range h.conns {
		conn.Close()
	}
	h.conns = nil
	h.mu.Unlock()
	h.wg.Wait()
}

func (h *Hosts) accept() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		if h.conns == nil {
			conn.Close()
		} else {
			h.conns[conn] = true
			h.wg.Go(func() { h.serve(conn) })
		}
		h.mu.Unlock()
	}
}

// serve is one host, until its connection ends.
func (h *Hosts) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		h.mu.Lock()
		delete(h.conns, conn)
		h.mu.Unlock()
	}()
	peer, channels, requests, err := xssh.NewServerConn(counted{conn, h}, h.server)
	if err != nil {
		return
	}
	defer peer.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for r := range requests {
			_ = r.Reply(false, nil) // a keepalive is answered so, too
		}
	})
	for opened := range channels {
		if opened.ChannelType() != "session" {
			_ = opened.Reject(xssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := opened.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { h.session(channel, requests) })
	}
}

// session runs the command of one session.
func (h *Hosts) session(channel xssh.Channel, requests <-chan *xssh.Request) {
	defer channel.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	started := false
	for r := range requests {
		var exec struct{ Command string }
		if r.Type != "exec" || started || xssh.Unmarshal(r.Payload, &exec) != nil {
			_ = r.Reply(r.Type == "env", nil)
			continue
		}
		started = true
		_ = r.Reply(true, nil)
		wg.Go(func() {
			status := h.run(exec.Command, channel)
			_, _ = channel.SendRequest("exit-status", false, xssh.Marshal(struct{ Status uint32 }{uint32(status)}))
			channel.Close()
		})
	}
}

// run is a command on a host: gorun's agent, or one that is not found.
func (h *Hosts) run(command string, channel xssh.Channel) (status int) {
	words := regexp.MustCompile(`__agent'? '?([0-9a-f]{32})'?$`).FindStringSubmatch(command)
	if words == nil {
		fmt.Fprintln(channel.Stderr(), "stub: not found")
		return 127
	}
	if err := h.agent(int(h.reached.Add(1)), words[1], channel, channel); err != nil {
		fmt.Fprintln(channel.Stderr(), "stub agent:", err)
		return 125
	}
	return 0
}
