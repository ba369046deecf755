package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// event writes an event of a watch.
func event(w http.ResponseWriter, kind string, object any) {
	text, _ := json.Marshal(map[string]any{"type": kind, "object": object})
	fmt.Fprintf(w, "%s\n", text)
	w.(http.Flusher).Flush()
}

// The watch survives the end of each of its requests, an answer that the version is too old, and a
// server that refuses for a while.
func TestWatchFollowsPods(t *testing.T) {
	var asked, lists atomic.Int32
	steps := make(chan struct{})
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		version := r.URL.Query().Get("resourceVersion")
		if r.URL.Query().Get("watch") == "" {
			if lists.Add(1) == 1 {
				list(w, "1", "", entry("w-0", "a", "1", "True"))
			} else {
				list(w, "20", "", entry("w-1", "b", "20", "True"))
			}
			return
		}
		switch n := asked.Add(1); {
		case n == 1 && version == "1":
			event(w, "ADDED", entry("w-1", "b", "2", "False"))
			event(w, "MODIFIED", entry("w-1", "b", "3", "True"))
			event(w, "BOOKMARK", map[string]any{"metadata": map[string]any{"resourceVersion": "9"}})
		case n == 2 && version == "9":
			event(w, "DELETED", entry("w-0", "a", "10", "True"))
			<-steps
			event(w, "ADDED", entry("w-2", "c", "11", "True"))
			event(w, "ERROR", map[string]any{"code": 410})
		case n == 3 && version == "20":
			<-steps
			refuse(w, 403, "no longer")
		case n == 4 && version == "20":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			t.Errorf("request %d from version %q", n, version)
			refuse(w, 410, "gone")
		}
	})
	c := must.Get(client(config(t, s, "token: secret")))(t)
	defer c.Close()
	pods, version := must.GetTwo(c.List(t.Context(), "a=b"))(t)
	w := c.Watch("a=b", pods, version)
	defer w.Close()
	names := func() string {
		pods, err := w.Pods()
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, p := range pods {
			names = append(names, p.Name)
		}
		return strings.Join(names, " ")
	}
	must.Until(t, "w-0 deleted", func() bool { return names() == "w-1" })
	p, known := w.Last("w-0")
	check.That(t, known && p.Node == "n2" && !p.Ready && p.Reason == "it has been deleted", "%+v", p)
	steps <- struct{}{}
	must.Until(t, "the new list", func() bool { return lists.Load() == 2 && names() == "w-1" })
	p, known = w.Last("w-2")
	check.That(t, known && p.Reason == "it has been deleted", "%+v", p)
	steps <- struct{}{}
	must.Until(t, "the refusal", func() bool { return strings.Contains(names(), "no longer") })
	must.Until(t, "the next watch", func() bool { return names() == "w-1" })
}

// A server that sends too much, or something that is no event, ends the watch with an error.
func TestHostileWatch(t *testing.T) {
	for _, tc := range []struct{ name, line, want string }{
		{"no JSON", "<html>\n", "does not answer as Kubernetes does"},
		{"no pod", `{"type":"ADDED","object":[]}` + "\n", "does not describe a pod"},
		{"no name", `{"type":"ADDED","object":{"metadata":{"name":"a b"}}}` + "\n", "is no such name"},
		{"a name of a node", `{"type":"ADDED","object":{"spec":{"nodeName":"a\u001b"}}}` + "\n", "is no such name"},
		{"a long UID", `{"type":"ADDED","object":{"metadata":{"uid":"` + strings.Repeat("x", 254) + `"}}}` + "\n",
			"a UID of 254 bytes"},
		{"many values", `{"type":"ADDED","object":{"status":{"conditions":[` + strings.Repeat("0,", maxValues) +
			"0]}}}\n", "more than 524288 values"},
		{"a line without end", strings.Repeat("x", maxEvent+1), "token too long"},
	} {
		s := server(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				refuse(w, 500, "later")
				return
			}
			fmt.Fprint(w, tc.line)
		})
		c := must.Get(client(config(t, s, "token: secret")))(t)
		w := c.Watch("a=b", nil, "1")
		must.Until(t, tc.name, func() bool {
			_, err := w.Pods()
			return err != nil && strings.Contains(err.Error(), tc.want)
		})
		w.Close()
		c.Close()
	}
}

// Of a server that does not even begin to answer a watch, the pods are not known.
func TestSilentWatch(t *testing.T) {
	var asked atomic.Int32
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			event(w, "ADDED", entry("w-0", "a", "2", "True"))
		}
		<-r.Context().Done()
	})
	c := must.Get(client(config(t, s, "token: secret")))(t)
	defer c.Close()
	c.http.Transport.(*http.Transport).ResponseHeaderTimeout /= 150
	w := c.Watch("a=b", nil, "1")
	defer w.Close()
	must.Until(t, "the silence", func() bool {
		_, err := w.Pods()
		return err != nil && strings.Contains(err.Error(), "does not answer")
	})
	must.Until(t, "the next watch", func() bool {
		pods, err := w.Pods()
		return err == nil && len(pods) == 1
	})
}
