package plan

import "strings"

// A variable that looks like a secret reaches no rank unless -x names it: ForwardEnv withholds it. How those that are sent stay out
// of argv and logs is in docs/security.md.

// secret reports names that usually hold credentials.
func secret(name string) bool {
	upper := strings.ToUpper(name)
	if upper == "TOKEN" || upper == "KEY" {
		return true
	}
	for _, s := range []string{"_TOKEN", "_KEY", "APIKEY", "_PAT", "_PASS", "_PWD"} {
		if strings.HasSuffix(upper, s) {
			return true
		}
	}
	for _, s := range []string{"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"} {
		if strings.Contains(upper, s) {
			return true
		}
	}
	return strings.HasPrefix(upper, "AWS_")
}
