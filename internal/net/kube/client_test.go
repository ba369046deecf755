package kube

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

func TestListReadsAllPagesInOrder(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		check.Equal(t, r.Header.Get("Authorization"), "Bearer secret", "authorization")
		query := r.URL.Query()
		check.That(t, r.URL.Path == "/api/v1/namespaces/ddp/pods" &&
			query.Get("labelSelector") == "app=train,role!=driver", "asked for %s", r.URL)
		if query.Get("continue") == "" {
			list(w, "7", "more", entry("w-10", "a", "5", "True"), entry("w-2", "b", "6", "False"))
			return
		}
		list(w, "8", "", entry("w-1", "c", "7", "True"))
	})
	c := must.Get(client(config(t, s, "token: secret")))(t)
	defer c.Close()
	pods, version, err := c.List(t.Context(), "app=train,role!=driver")
	must.That(t, err == nil && version == "8" && len(pods) == 3, "%+v, version %q, %v", pods, version, err)
	names := []string{pods[0].Name, pods[1].Name, pods[2].Name}
	check.That(t, slices.Equal(names, []string{"w-1", "w-2", "w-10"}), "order %q", names)
	want := Pod{
		Name:  "w-1",
		Node:  "n2",
		IP:    "10.1.0.7",
		Host:  "w-1.train",
		UID:   "c",
		Ready: true,
	}
	check.Equal(t, pods[0], want)
}

// Errors say what is wrong, and the hint what to type. None of them has the token.
func TestRefusals(t *testing.T) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:ddp:trainer"}`))
	const token = "eyJhbGciOiJub25lIn0"
	answer := func(code int, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { refuse(w, code, message) }
	}
	for _, tc := range []struct {
		name       string
		handler    http.HandlerFunc
		want, hint string
	}{
		{"no permission", answer(403, `pods is forbidden: User "system:serviceaccount:ddp:trainer" cannot list`),
			"(403): pods is forbidden", "--verb=list,watch --resource=pods && kubectl create rolebinding gorun-pods " +
				"-n ddp --role=gorun-pods --serviceaccount=ddp:trainer"},
		{"expired", answer(401, "Unauthorized"), "(401): Unauthorized", "kubectl get pods -n ddp"},
		{"bad selector", answer(400, "unable to parse requirement"), "(400): unable", "app=train"},
		{"control characters", answer(500, "a\x1b[31mb\nc"), "(500): a?[31mb; c", "kubectl get pods"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
			"does not answer as Kubernetes does", ""},
		{"a flood", func(w http.ResponseWriter, _ *http.Request) {
			for piece := make([]byte, 1<<20); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, "more than 16777216 bytes", ""},
		{"another name", func(w http.ResponseWriter, _ *http.Request) {
			list(w, "1", "", entry("-x", "a", "1", "True"))
		}, `or its node, "-x"`, ""},
		{"many pods without a name", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"items":[`, strings.Repeat("{},", maxValues), "{}]}")
		}, "more than 524288 values", ""},
		{"an option for an address", func(w http.ResponseWriter, _ *http.Request) {
			list(w, "1", "", at(entry("w-0", "a", "1", "True"), "-oProxyCommand=true"))
		}, `gives the pod w-0 the address "-oProxyCommand=true"`, ""},
		{"an address of this machine", func(w http.ResponseWriter, _ *http.Request) {
			list(w, "1", "", at(entry("w-0", "a", "1", "True"), "::ffff:127.0.0.1"))
		}, `gives the pod w-0 the address "::ffff:127.0.0.1"`, ""},
		{"without end", func(w http.ResponseWriter, _ *http.Request) {
			all := make([]any, pageSize)
			for i := range all {
				all[i] = entry("w", "a", "1", "True")
			}
			list(w, "1", "more", all...)
		}, "matches more than 10000 pods", "narrow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := server(t, tc.handler)
			c := must.Get(client(config(t, s, "token: "+token+"."+claims+".x")))(t)
			defer c.Close()
			_, _, err := c.List(t.Context(), "a=b")
			check.That(t, err != nil && strings.Contains(err.Error(), tc.want) &&
				strings.Contains(usage.Hint(err), tc.hint), "%v\nhint %s", err, usage.Hint(err))
			check.That(t, !strings.Contains(err.Error()+usage.Hint(err), token), "the token is shown: %v", err)
		})
	}
}

// A namespace is the user's word, and one word of a shell in each hint.
func TestHintsMayBePasted(t *testing.T) {
	for _, account := range []string{"", "ddp:trainer"} {
		for _, status := range []int{400, 401, 403, 500} {
			hint := (&RefusedError{Status: status, Namespace: "a; touch b", Account: account}).Hint()
			rest := strings.ReplaceAll(hint, "'a; touch b'", "")
			check.That(t, !strings.Contains(rest, "touch"), "%d: %s", status, hint)
		}
	}
}

// A token goes to no server but the one that is named, and that has shown its certificate.
func TestTokenStays(t *testing.T) {
	elsewhere := server(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server is asked, with %q", r.Header.Get("Authorization"))
	})
	redirects := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	c := must.Get(client(config(t, redirects, "token: secret")))(t)
	defer c.Close()
	check.Error(c.List(t.Context(), "a=b")).Says(t, "(307)", "redirected")
	plain := httptest.NewServer(elsewhere.Config.Handler)
	defer plain.Close()
	for name, change := range map[string]func(string) string{
		"another authority": func(text string) string {
			return strings.Replace(text, redirects.URL, elsewhere.URL+"/x", 1)
		},
		"no check": func(text string) string {
			return strings.Replace(text, "certificate-authority-data:", "insecure-skip-tls-verify: true, x:", 1)
		},
		"no encryption": func(text string) string { return strings.Replace(text, redirects.URL, plain.URL, 1) },
		"own authority missing": func(text string) string {
			return strings.Replace(text, "certificate-authority-data:", "x:", 1)
		},
	} {
		file := config(t, redirects, "token: secret")
		text := must.Get(os.ReadFile(file))(t)
		changed := change(string(text))
		if name == "another authority" { // the system's authorities, which have not signed this one
			changed = strings.Replace(changed, "certificate-authority-data:", "x:", 1)
		}
		file = write(t, t.TempDir(), "config", changed)
		c, err := client(file)
		if err == nil {
			_, _, err = c.List(t.Context(), "a=b")
			c.Close()
		}
		check.That(t, err != nil && strings.Contains(err.Error(), "certificate"), "%s: %v", name, err)
	}
}

func TestServerIsAway(t *testing.T) {
	s := server(t, nil)
	c := must.Get(client(config(t, s, "token: secret")))(t)
	s.Close()
	_, _, err := c.List(t.Context(), "a=b")
	check.That(t, err != nil && strings.Contains(err.Error(), "does not answer: dial tcp") &&
		strings.Contains(usage.Hint(err), "kubectl get --raw /readyz"),
		"%v", err)
}

func TestMissingNamespace(t *testing.T) {
	for code, has := range map[int]bool{404: false, 403: true, 200: true} {
		s := server(t, func(w http.ResponseWriter, r *http.Request) {
			check.That(t, r.URL.Path == "/api/v1/namespaces/ddp", "asked for %s", r.URL)
			refuse(w, code, "")
		})
		c := must.Get(client(config(t, s, "token: secret")))(t)
		check.Equal(t, c.HasNamespace(t.Context()), has, code)
		c.Close()
	}
}

func TestAccess(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			refuse(w, 401, got)
			return
		}
		list(w, "1", "", entry("w-0", "a", "1", "True"))
	})
	dir := t.TempDir()
	write(t, dir, "token", "secret\n")
	program := filepath.Join(dir, "login")
	const script = `#!/bin/sh
case $KUBERNETES_EXEC_INFO in *'"interactive":false'*) echo '{"status": {"token": "'"$1$REST"'"}}';; esac
`
	must.OK(t, os.WriteFile(program, []byte(script), 0o700))
	open := config(t, s, "token: secret")
	must.OK(t, os.Chmod(open, 0o666))
	token := write(t, dir, "others", "secret\n")
	must.OK(t, os.Chmod(token, 0o666))
	pipe := filepath.Join(dir, "pipe") // reading it would wait
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	must.OK(t, os.Chmod(pipe, 0o666))
	ownPipe := filepath.Join(dir, "own-pipe")
	must.OK(t, syscall.Mkfifo(ownPipe, 0o600))
	long := write(t, dir, "long", "")
	must.OK(t, os.Truncate(long, maxFile+1))
	silent := strings.ReplaceAll(program, "login", "silent")
	must.OK(t, os.WriteFile(silent, []byte("#!/bin/sh\necho no token >&2; exit 3\n"), 0o700))
	endless := strings.ReplaceAll(program, "login", "endless")
	must.OK(t, os.WriteFile(endless, []byte("#!/bin/sh\nexec cat /dev/zero\n"), 0o700))
	many := strings.ReplaceAll(program, "login", "many")
	must.OK(t, os.WriteFile(many, fmt.Appendf(nil, "#!/bin/sh\necho '{\"status\":{\"token\":\"secret\"},\"more\":['\n"+
		"head -c %d /dev/zero | sed 's/\\x00/0,/g'\necho 0']}'\n", maxValues), 0o700))
	ok := config(t, s, "token: secret")
	for _, tc := range []struct{ name, files, want string }{
		{"token", ok, ""},
		{"file of a token", config(t, s, "tokenFile: "+filepath.Join(dir, "token")), ""},
		{"program", config(t, s, fmt.Sprintf("exec: {command: %s, args: [sec], env: [{name: REST, value: ret}], "+
			"apiVersion: client.authentication.k8s.io/v1}", program)), ""},
		{"program that fails", config(t, s, "exec: {command: "+silent+"}"),
			"get a token from " + silent + ": exit status 3"},
		{"program that prints on and on", config(t, s, "exec: {command: "+endless+"}"),
			"get a token from " + endless + ": it prints more than 4194304 bytes"},
		{"program that prints many values", config(t, s, "exec: {command: "+many+"}"), "it prints no token"},
		{"first file has all", ok + ":" + filepath.Join(dir, "missing"), ""},
		{"split", write(t, dir, "first", "current-context: at") + ":" + ok, ""},
		{"no context", write(t, dir, "second", "current-context: b") + ":" + ok, `no context "b"`},
		{"no user", config(t, s, ""), "neither token, certificate nor exec"},
		{"no YAML", write(t, dir, "bad", "a: b: c"), "read the kubeconfig"},
		{"none", filepath.Join(dir, "missing"), "neither a kubeconfig file nor a pod's service account"},
		{"others can write", open, "others can change"},
		{"others can write the token", config(t, s, "tokenFile: "+token), "others can change"},
		{"a pipe of others", pipe, "others can change"},
		{"a pipe", ownPipe, "it is no regular file"},
		{"a pipe as a token", config(t, s, "tokenFile: "+ownPipe), "it is no regular file"},
		{"too long", long, "longer than 4194304 bytes"},
	} {
		c, err := client(tc.files)
		if err == nil {
			_, _, err = c.List(t.Context(), "a=b")
			c.Close()
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// The address of a proxy may hold a password, which no error quotes.
func TestPasswordOfAProxyStays(t *testing.T) {
	text := must.Get(os.ReadFile(config(t, server(t, nil), "token: secret")))(t)
	named := strings.Replace(string(text), "{server:", "{proxy-url: 'http://ada:hunter2@proxy:x', server:", 1)
	_, err := client(write(t, t.TempDir(), "config", named))
	check.That(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "%v", err)
}

// Nor is a token quoted that stands where YAML, or a kubeconfig, has something else.
func TestTokenOfABrokenFileStays(t *testing.T) {
	text := must.Get(os.ReadFile(config(t, server(t, nil), "token: hunter2")))(t)
	for name, changed := range map[string]string{
		"an alias":        strings.Replace(string(text), "token: hunter2", "token: *hunter2", 1),
		"no map":          strings.Replace(string(text), "{token: hunter2}", "hunter2", 1),
		"another setting": strings.Replace(string(text), "token:", "exec:", 1),
		"no end":          strings.Replace(string(text), "token: hunter2}", "token: 'hunter2", 1),
	} {
		file := write(t, t.TempDir(), "config", changed)
		_, err := client(file)
		check.That(t, err != nil && strings.Contains(err.Error(), file) && !strings.Contains(err.Error(), "hunter2"),
			"%s: %v", name, err)
	}
	check.Equal(t, lineOf(errors.New("yaml: unmarshal errors:\n  line 12: cannot unmarshal")), ":12")
}

// A pod asks by its service account, whose token is read again for each request.
func TestServiceAccount(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		list(w, "1", "", entry("w-0", r.Header.Get("Authorization")[len("Bearer "):], "1", "True"))
	})
	dir := t.TempDir()
	write(t, dir, "ca.crt", string(authority(s)))
	write(t, dir, "namespace", "ddp\n")
	host, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	pod := environment(map[string]string{
		"KUBERNETES_SERVICE_HOST": host,
		"KUBERNETES_SERVICE_PORT": port,
		"HOME":                    dir,
	})
	access, err := findAccess(pod, dir)
	must.That(t, err == nil && access.InPod && access.Namespace == "ddp", "%+v, %v", access, err)
	c := NewClient(access)
	defer c.Close()
	for _, token := range []string{"first", "second"} {
		write(t, dir, "token", token)
		pods, _, err := c.List(t.Context(), "a=b")
		check.That(t, err == nil && pods[0].UID == token, "%v, %v", pods, err)
	}
	_, err = findAccess(pod, t.TempDir())
	check.That(t, err != nil && strings.Contains(usage.Hint(err), "automountServiceAccountToken"),
		"without an account: %v", err)
}
