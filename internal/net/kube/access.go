// Package kube asks the API server of a Kubernetes cluster which pods there are, and follows them:
// from a pod by its service account, from elsewhere by a kubeconfig file.
package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/usage"
)

// Access is an API server, and how to be admitted there.
type Access struct {
	Server    string // URL
	Namespace string // namespace of this pod, or of the kubeconfig's context
	InPod     bool

	tls   *tls.Config
	proxy func(*http.Request) (*url.URL, error)
	token func() (string, error) // read again for each request, since tokens expire; nil: a certificate
}

// accountFolder has the service account of a pod.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// FindAccess finds the API server as kubectl does: by KUBECONFIG, ~/.kube/config, or else the
// service account of this pod.
func FindAccess(lookup func(string) (string, bool)) (Access, error) {
	return findAccess(lookup, accountFolder)
}

func findAccess(lookup func(string) (string, bool), account string) (Access, error) {
	var files []string
	if list, _ := lookup("KUBECONFIG"); list != "" {
		files = filepath.SplitList(list)
	} else if home, _ := lookup("HOME"); home != "" {
		files = []string{filepath.Join(home, ".kube/config")}
	}
	config, err := readConfigs(files)
	if err != nil {
		return Access{}, err
	}
	if config.CurrentContext != "" || len(config.Clusters) > 0 {
		return config.access()
	}
	host, inPod := lookup("KUBERNETES_SERVICE_HOST")
	port, _ := lookup("KUBERNETES_SERVICE_PORT")
	if !inPod {
		return Access{}, usage.Errorf("set KUBECONFIG to a file by which kubectl get pods works",
			"find a Kubernetes API server: neither a kubeconfig file nor a pod's service account")
	}
	return inPodAccess(host, port, account)
}

func inPodAccess(host, port, account string) (Access, error) {
	const hint = "the pod needs serviceAccountName, and not automountServiceAccountToken: false"
	ca, err := readFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return Access{}, usage.Errorf(hint, "read this pod's service account: %w", err)
	}
	namespace, err := readFile(filepath.Join(account, "namespace"))
	if err != nil {
		return Access{}, usage.Errorf(hint, "read this pod's service account: %w", err)
	}
	pool, err := authorities(ca)
	return Access{
		Server:    "https://" + net.JoinHostPort(host, port),
		Namespace: strings.TrimSpace(string(namespace)),
		InPod:     true,
		tls:       &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		token:     tokenOf(filepath.Join(account, "token"), readFile),
	}, err
}

// tokenOf returns a function that reads a token from a file by read.
func tokenOf(file string, read func(string) ([]byte, error)) func() (string, error) {
	return func() (string, error) {
		text, err := read(file)
		if err != nil {
			return "", fmt.Errorf("read the token for the API server: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
}

func authorities(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the certificate authority of the API server is no certificate in PEM")
	}
	return pool, nil
}

// readTrusted reads a file that says whom gorun obeys, or where it sends secrets. It opens nothing
// that another user could have put there.
func readTrusted(path string) ([]byte, error) {
	if err := trust.CheckOptional(path); err != nil {
		return nil, err
	}
	return readFile(path)
}

// maxFile bounds a kubeconfig, the files that one names, and what its programs print.
const maxFile = 4 << 20

func readFile(path string) ([]byte, error) { return trust.ReadFile(path, maxFile) }
