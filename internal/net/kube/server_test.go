package kube

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// server is an API server with a handler for its requests.
func server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// authority is the certificate of a server, in PEM.
func authority(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// write writes a file that belongs to the user alone.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// environment is a lookup of variables.
func environment(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

// config writes a kubeconfig for a server, with fields of its user.
func config(t *testing.T, s *httptest.Server, user string) string {
	t.Helper()
	ca := base64.StdEncoding.EncodeToString(authority(s))
	return write(t, t.TempDir(), "config", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "%s/", certificate-authority-data: %s}}]
users: [{name: ada, user: {%s}}]
contexts: [{name: at, context: {cluster: test, user: ada, namespace: ddp}}]
current-context: at
`, s.URL, ca, user))
}

// client returns a client by a kubeconfig, or how it fails.
func client(file string) (*Client, error) {
	access, err := FindAccess(environment(map[string]string{"KUBECONFIG": file}))
	if err != nil {
		return nil, err
	}
	return NewClient(access), nil
}

// entry is a pod as an API server describes it.
func entry(name, uid, version, ready string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "uid": uid, "resourceVersion": version},
		"spec":     map[string]any{"nodeName": "n2", "subdomain": "train"},
		"status": map[string]any{
			"phase":      "Running",
			"podIP":      "10.1.0.7",
			"conditions": []map[string]any{{"type": "Ready", "status": ready}},
		},
	}
}

// at gives a pod another address.
func at(pod map[string]any, address string) map[string]any {
	pod["status"].(map[string]any)["podIP"] = address
	return pod
}

// list answers with a list of pods.
func list(w http.ResponseWriter, version, next string, pods ...any) {
	_ = json.NewEncoder(w).Encode(map[string]any{
		"metadata": map[string]any{"resourceVersion": version, "continue": next},
		"items":    pods,
	})
}

// refuse answers with a Status, as an API server does.
func refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "code": code, "message": message})
}
