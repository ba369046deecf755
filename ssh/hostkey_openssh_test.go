package ssh

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// knownHostsText makes up a known_hosts file, with lines that nobody can read.
func knownHostsText(rnd *rand.Rand, keys []xssh.Signer) string {
	patterns := []string{"alpha", "beta", "alpha,beta", "*", "al*", "a?pha", "!alpha,*", "!beta,al*", "[alpha]:2222",
		"[*]:2222", "10.0.0.7", "10.0.*",
		xknownhosts.HashHostname("alpha"), xknownhosts.HashHostname("[alpha]:2222"), "|1|bad|hash", "ALPHA", "!*", ""}
	var b strings.Builder
	for range 1 + rnd.IntN(4) {
		line := patterns[rnd.IntN(len(patterns))] + " " + publicLine(keys[rnd.IntN(len(keys))])
		switch rnd.IntN(8) {
		case 0:
			line = "@revoked " + line
		case 1:
			line = "# " + line
		case 2:
			line = "@unheard-of " + line
		case 3:
			line = strings.TrimSuffix(line, "\n") + " a comment\r\n"
		case 4:
			line = "\t" + line
		}
		b.WriteString(line)
	}
	return b.String()
}

// openSSHKnows reports whether ssh would take the key: a line of the name has it, and none of the
// name revokes it. Like ssh it looks at the name without the port when there is none with it.
func openSSHKnows(t *testing.T, file string, names []string, key xssh.PublicKey) bool {
	text := strings.Fields(string(xssh.MarshalAuthorizedKey(key)))[1]
	known := false
	revoked := false
	for i, name := range names {
		out, _ := exec.Command("ssh-keygen", "-F", name, "-f", file).Output() // fails when there is none
		lines := 0
		for line := range strings.Lines(string(out)) {
			switch {
			case strings.HasPrefix(line, "#"):
				continue
			case strings.HasPrefix(line, "@revoked"):
				revoked = revoked || strings.Contains(line, text)
			case strings.HasPrefix(line, "@"):
				continue
			default:
				known = known || strings.Contains(line, text)
			}
			lines++
		}
		if i == 0 && lines > 0 {
			break
		}
	}
	return known && !revoked
}

// What OpenSSH would not take, we do not take.
func TestKnownHostsAreNeverWeakerThanOpenSSHs(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, "ssh-keygen")
	keys := []xssh.Signer{newSigner(t), newSigner(t)}
	rnd := rand.New(rand.NewPCG(1, 5))
	file := filepath.Join(t.TempDir(), "known")
	took := 0
	agreed := 0
	asked := 0
	for range 120 {
		text := knownHostsText(rnd, keys)
		writeFile(t, file, text)
		host := []string{"alpha", "10.0.0.7"}[rnd.IntN(2)]
		port := []int{22, 2222}[rnd.IntN(2)]
		names := []string{host}
		if port != 22 {
			names = []string{fmt.Sprintf("[%s]:%d", host, port), host}
		}
		k, err := newHostKeys(settings{hostname: host, port: port, userKnownHosts: []string{file}}, Target{Host: host},
			nil)
		must.That(t, err == nil, "%v\n%s", err, text)
		key := keys[0].PublicKey()
		ours := k.judge(t.Context(), key) == nil
		theirs := openSSHKnows(t, file, names, key)
		check.That(t, !ours || theirs, "%v: we take the key, and OpenSSH would not:\n%s", names, text)
		asked++
		if ours {
			took++
		}
		if ours == theirs {
			agreed++
		}
	}
	check.That(t, took != 0 && took != asked && agreed >= asked*9/10,
		"of %d keys %d are taken, and OpenSSH agrees about %d", asked, took, agreed)
}
