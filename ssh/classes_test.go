package ssh

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// TestClassesLikeSSH holds what the resolver makes of one host's answer against what ssh says of each.
func TestClassesLikeSSH(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	lab.Need(t, "ssh")
	hosts := []string{"f1", "f2", "f3", "f10", "g1", "g1.x", "n-7", "gate", "F1", "10.0.0.1", "10.0.0.2", "::1"}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "more.conf"), "Host f?\n  Port 2222\nHost g*\n  HostName gate\n  ProxyJump me@gate\n")
	for name, test := range map[string]struct {
		config string
		asked  int // times, for all hosts
	}{
		"empty":        {"", 3},
		"star":         {"Host *\n  User me\n  ConnectTimeout 3\n", 3},
		"blocks":       {"Host f1 f2\n User a\nHost f*\n  User b\n IdentityFile ~/%h\nHost * !gate\n Port=7\n", 6},
		"aliases":      {"Host f1\n HostName 10.0.0.1\nHost f2\n HostName f1\nHost f3 f10\n  HostName f3\n", 8},
		"included":     {"include " + dir + "/*.conf\nHost *\n  ProxyCommand nc %h %p\n", 6},
		"match":        {"Match host f1\n  User x\n", len(hosts)},
		"tokens":       {"Host f*\n  HostName %h.cluster\n", len(hosts)},
		"canonical":    {"CanonicalizeHostname always\n", len(hosts)},
		"quoted":       {"Host \"f1\"\n  User x\n", len(hosts)},
		"not there":    {"Include " + dir + "/nothing*\n", 3},
		"case and tab": {"HOST\tF1\n\tUser big\nhost = f1\n\tUser small\n", 4},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".cfg")
			writeFile(t, file, test.config)
			var r Resolver
			var asked []string
			for _, host := range hosts {
				c := Config{Host: host, ConfigFile: file}
				got, err := r.ask(t.Context(), c, "/nonexistent", func(ctx context.Context) (map[string][]string, error) {
					asked = append(asked, host)
					return c.askSSH(ctx)
				})
				want, wantErr := c.askSSH(t.Context())
				if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %v, %v\nssh says %v, %v", host, got, err, want, wantErr)
				}
			}
			if len(asked) != test.asked {
				t.Errorf("asked for %q, want %d", asked, test.asked)
			}
		})
	}
}

func TestResolverAsksOnceAtATime(t *testing.T) {
	lab.Need(t, "ssh")
	file := filepath.Join(t.TempDir(), "config")
	writeFile(t, file, "Host *\n  User me\n")
	var r Resolver
	var mu sync.Mutex
	asked := 0
	var wg sync.WaitGroup
	for _, host := range []string{"a", "b", "c", "d", "e", "f"} {
		wg.Go(func() {
			values, err := r.ask(t.Context(), Config{Host: host, ConfigFile: file}, "", func(context.Context) (map[string][]string, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				return map[string][]string{"hostname": {host}, "user": {"me"}}, nil
			})
			if err != nil || !reflect.DeepEqual(values, map[string][]string{"hostname": {host}, "user": {"me"}}) {
				t.Errorf("%s: %v, %v", host, values, err)
			}
		})
	}
	wg.Wait()
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestResolverFailure checks that every host gets its own error.
func TestResolverFailure(t *testing.T) {
	lab.Need(t, "ssh")
	file := filepath.Join(t.TempDir(), "config")
	writeFile(t, file, "")
	var r Resolver
	for _, host := range []string{"a", "b"} {
		own := errors.New(host)
		if _, err := r.ask(t.Context(), Config{Host: host, ConfigFile: file}, "", func(context.Context) (map[string][]string, error) { return nil, own }); !errors.Is(err, own) {
			t.Errorf("%s: %v", host, err)
		}
	}
}
