package kube

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/net/untrusted"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// Bounds of what an API server may answer.
const (
	maxPods   = 10_000
	maxAnswer = 16 << 20 // bytes of a page of pods
	maxEvent  = 2 << 20  // bytes of a change of a pod
	maxError  = 64 << 10 // bytes of a refusal
	maxValues = 1 << 19  // values in an answer
	pageSize  = 250      // pods
)

const (
	answerTime = 30 * time.Second // bounds an answer that is no watch, and the beginning of one that is
	watchTime  = 5 * time.Minute  // after which the server is asked to end a watch
)

// Client asks an API server for the pods of a namespace. It is safe for concurrent use.
type Client struct {
	access Access
	http   *http.Client
}

// NewClient returns a client for the pods of the namespace of a. It connects when it is asked.
func NewClient(a Access) *Client {
	transport := &http.Transport{
		TLSClientConfig:     a.tls,
		Proxy:               a.proxy,
		TLSHandshakeTimeout: 10 * time.Second,
		// A server that does not begin a watch must not make old pods seem present.
		ResponseHeaderTimeout: answerTime,
		ForceAttemptHTTP2:     true,
		// A dead connection ends a watch within half a minute.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	// A token goes to the server that the user has named, and nowhere else.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{a, &http.Client{Transport: transport, CheckRedirect: stay}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// List returns the pods that a label selector matches, in the order of their names, and the version
// from which they can be watched.
func (c *Client) List(ctx context.Context, selector string) (pods []Pod, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	next := ""
	for {
		var page struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []object `json:"items"`
		}
		query := url.Values{"labelSelector": {selector}, "limit": {strconv.Itoa(pageSize)}}
		if next != "" {
			query.Set("continue", next)
		}
		if err := c.get(ctx, c.podsPath(), query, &page); err != nil {
			return nil, "", err
		}
		for i := range page.Items {
			pod, err := page.Items[i].pod()
			if err != nil {
				return nil, "", err
			}
			pods = append(pods, pod)
		}
		if len(pods) > maxPods {
			return nil, "", usage.Errorf("narrow the label selector", "%q matches more than %d pods", selector, maxPods)
		}
		if next = page.Metadata.Continue; next == "" {
			slices.SortFunc(pods, order)
			return pods, page.Metadata.ResourceVersion, nil
		}
	}
}

// HasNamespace reports whether the namespace is known to be missing: listing its pods succeeds
// nevertheless.
func (c *Client) HasNamespace(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := c.get(ctx, "/api/v1/namespaces/"+url.PathEscape(c.access.Namespace), nil, &struct{}{})
	var refused *RefusedError
	return !errors.As(err, &refused) || refused.Status != http.StatusNotFound
}

func (c *Client) podsPath() string {
	return "/api/v1/namespaces/" + url.PathEscape(c.access.Namespace) + "/pods"
}

func (c *Client) get(ctx context.Context, path string, query url.Values, answer any) error {
	body, err := c.open(ctx, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return &UnreachableError{c.access.Server, err}
	case len(text) > maxAnswer:
		return fmt.Errorf("the API server %s answers with more than %d bytes", c.access.Server, maxAnswer)
	}
	if err := untrusted.Unmarshal(text, maxValues, answer); err != nil {
		return fmt.Errorf("the API server %s does not answer as Kubernetes does: %w", c.access.Server, err)
	}
	return nil
}

// open begins to read an answer, which the caller closes.
func (c *Client) open(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.access.Server+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	token := ""
	if c.access.token != nil {
		if token, err = c.access.token(); err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &UnreachableError{c.access.Server, withoutURL(err)}
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxError))
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(said, &status) != nil {
		status.Message = response.Status
	}
	return nil, &RefusedError{
		Server:    c.access.Server,
		Status:    response.StatusCode,
		Message:   prose.Printable(status.Message),
		Namespace: c.access.Namespace,
		Account:   accountOf(token),
	}
}

// accountOf returns the namespace and name of the service account whose token it is, or "".
func accountOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Subject string `json:"sub"`
	}
	if err != nil || json.NewDecoder(bytes.NewReader(text)).Decode(&claims) != nil {
		return ""
	}
	name, found := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	namespace, account, _ := strings.Cut(name, ":")
	if !found || !isName(namespace+".") || !isName(account+".") {
		return ""
	}
	return name
}

// RefusedError reports an API server that answers, but not with what it was asked for.
type RefusedError struct {
	Server    string
	Status    int    // status code of HTTP
	Message   string // error text of the server, safe for a terminal
	Namespace string
	Account   string // service account that asked, NAMESPACE:NAME; "": the user of a kubeconfig
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the API server %s refuses (%d): %s", e.Server, e.Status, e.Message)
}

// Hint returns the rule or the credentials that are missing.
func (e *RefusedError) Hint() string {
	namespace := prose.Quoted(e.Namespace)
	switch {
	case e.Status == http.StatusForbidden && e.Account != "":
		return fmt.Sprintf("the service account needs this: kubectl create role gorun-pods -n %[1]s "+
			"--verb=list,watch --resource=pods && kubectl create rolebinding gorun-pods -n %[1]s "+
			"--role=gorun-pods --serviceaccount=%[2]s",
			namespace, e.Account)
	case e.Status == http.StatusForbidden:
		return fmt.Sprintf("you need a Role in the namespace %s with the rule {apiGroups: [\"\"], resources: [pods], "+
			"verbs: [list, watch]}: kubectl auth can-i watch pods -n %[1]s", namespace)
	case e.Status == http.StatusUnauthorized:
		return "the credentials have expired, or are another cluster's: this must work: kubectl get pods -n " +
			namespace
	case e.Status == http.StatusBadRequest:
		return "a selector is like app=train,role!=driver: kubectl get pods -n " + namespace + " --show-labels"
	}
	return "this must work: kubectl get pods -n " + namespace
}

// UnreachableError reports an API server that does not answer.
type UnreachableError struct {
	Server string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the API server %s does not answer: %v", e.Server, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Hint returns how to look.
func (e *UnreachableError) Hint() string { return "this must work: kubectl get --raw /readyz" }
