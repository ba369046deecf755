package callback

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/records"
)

// A host asks for changes of keys and takes no answer. So the launcher's Read waits within package
// tls, whose Close would wait for that.
func TestCloseDoesNotWaitForAHostThatTakesNothing(t *testing.T) {
	must.HaveTime(t)
	l, arrivals := listening(t, "n1")
	credentials := must.Get(secure.NewCredentials(l.Ticket().Seed))(t)
	config := credentials.TLS(secure.Fingerprint(l.Ticket().Launcher))
	var secrets bytes.Buffer
	config.KeyLogWriter = &secrets
	raw := must.Get(net.Dial("tcp", address(l)))(t)
	defer raw.Close()
	client := tls.Client(raw, config)
	must.OK(t, client.Handshake())
	must.OK(t, announce(client, Hello{Host: "n1"}))
	arrived := <-arrivals
	// Few answers fill this.
	must.OK(t, raw.(*net.TCPConn).SetReadBuffer(4<<10))
	must.OK(t, arrived.Conn.(*tls.Conn).NetConn().(*net.TCPConn).SetWriteBuffer(4<<10))
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, arrived)
	}()
	host := records.Take(t, client, secrets.Bytes(), 1) // the hello
	for {
		var text []byte
		for range 16 {
			text = append(text, host.Rekey(1)...)
		}
		text = append(text, host.Seal(records.Data, 'x')...)
		must.OK(t, raw.SetWriteDeadline(time.Now().Add(time.Second)))
		if _, err := raw.Write(text); err != nil {
			break // the launcher takes no more: it waits
		}
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = arrived.Close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("Close waits for the host")
		raw.Close()
	}
	<-closed
	<-read
}
