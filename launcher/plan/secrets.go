package plan

import (
	"slices"
	"strings"
	"unicode"
)

// A variable that looks like a secret reaches no rank unless -x names it: ForwardEnv withholds it.
// How those that are sent stay out of argv and logs is in docs/security.md.

// secret reports variables that usually hold credentials, by name or by value.
func secret(name, value string) bool { return secretName(name) || secretValue(value) }

// secretName reports names that usually belong to credentials. It compares whole words, so that
// COMPASS and TOKENIZERS are none.
func secretName(name string) bool {
	upper := strings.ToUpper(name)
	squeezed := strings.NewReplacer("_", "", "-", "", ".", "").Replace(upper)
	for _, part := range []string{"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "APIKEY",
		"CONNECTIONSTRING", "CONNSTR"} {
		if strings.Contains(squeezed, part) {
			return true
		}
	}
	if strings.HasSuffix(squeezed, "AUTHCONFIG") {
		return true
	}
	words := wordsOf(name)
	if strings.HasPrefix(upper, "AWS_") && !configures(words[len(words)-1]) {
		return true
	}
	for len(words) > 1 && whichOne(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	before := words[:len(words)-1]
	switch last {
	case "TOKEN", "KEY", "PASS", "PWD", "PW", "PAT", "PSK", "CRED", "CREDS", "JWT", "JWTS", "DSN":
		return true
	case "TOKENS", "KEYS": // tokens of a model, or keys of a table
		return !slices.ContainsFunc(before, counts)
	case "AUTH", "OAUTH", "COOKIE", "COOKIES":
		return len(before) == 0 || !switches(before[0])
	case "URL", "URI":
		return slices.ContainsFunc(before, func(word string) bool {
			return slices.Contains([]string{"DATABASE", "DB", "WEBHOOK"}, word)
		})
	}
	return joined(last)
}

// joined reports a word such as ACCESSKEY or DBPASS: what a credential is for, and the credential.
func joined(word string) bool {
	for _, noun := range []string{"KEYS", "KEY", "TOKENS", "TOKEN", "PASS", "PWD", "CREDS", "AUTH", "COOKIE"} {
		if use, found := strings.CutSuffix(word, noun); found {
			return slices.Contains([]string{"ACCESS", "ACCOUNT", "ADMIN", "API", "APP", "AUTH", "BASIC", "BEARER",
				"BOT", "CLIENT", "DATABASE", "DB", "DEPLOY",
				"DOCKER", "EMAIL", "ENCRYPTION", "FTP", "GITHUB", "GITLAB", "GPG", "HF", "HMAC", "HTTP", "KEYSTORE",
				"LDAP", "LICENSE", "LOGIN", "MAIL", "MASTER",
				"MYSQL", "NPM", "PG", "PGP", "POSTGRES", "PRIVATE", "PROXY", "REDIS", "REFRESH", "REGISTRY", "ROOT",
				"RSA", "SERVICE", "SESSION", "SHARED",
				"SIGNING", "SMTP", "SSH", "SSL", "STORAGE", "STORE", "SUDO", "TLS", "TRUSTSTORE", "USER", "VAULT",
				"VNC", "WEBHOOK"}, use)
		}
	}
	return false
}

// wordsOf splits a name into its words, in capitals and without numbers at their ends: apiKey_2 has
// API and KEY.
func wordsOf(name string) (words []string) {
	var spaced strings.Builder
	lower := false
	for _, r := range name {
		if lower && unicode.IsUpper(r) {
			spaced.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		spaced.WriteRune(r)
	}
	for _, word := range strings.FieldsFunc(spaced.String(), func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || r == ' '
	}) {
		if word = strings.ToUpper(strings.TrimRight(word, "0123456789")); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// whichOne reports words after a credential that tell which one it is, or how it is written.
func whichOne(word string) bool {
	return slices.Contains([]string{"PROD", "PRODUCTION", "DEV", "STAGING", "TEST", "LIVE", "OLD", "NEW", "PRIMARY",
		"SECONDARY", "BACKUP",
		"JSON", "HEX", "B", "BASE", "ENCODED", "VALUE"}, word) // B64 and BASE64 without their numbers
}

// counts reports words that make tokens or keys a number of them.
func counts(word string) bool {
	return slices.Contains([]string{"MAX", "MIN", "NUM", "N", "NB", "NUMBER", "TOTAL", "COUNT", "PER", "BATCH", "INPUT",
		"OUTPUT", "PROMPT", "CONTEXT",
		"COMPLETION", "TRAIN", "TRAINING", "EVAL", "VOCAB", "SPECIAL", "EXTRA", "STOP", "PAD", "CHUNK", "CACHE",
		"WARMUP"}, word)
}

// configures reports words that end the name of a setting.
func configures(word string) bool {
	return slices.Contains([]string{"ATTEMPTS", "BUNDLE", "DISABLED", "ENDPOINTS", "FILE", "MODE",
		"OUTPUT", "PAGER", "REGION", "TIMEOUT", "URL"}, word)
}

// switches reports words that begin the name of something that is on or off.
func switches(word string) bool {
	return slices.Contains([]string{"NO", "USE", "ENABLE", "DISABLE", "REQUIRE", "SKIP", "ALLOW", "HAS", "IS", "WITH"},
		word)
}

// secretValue reports values that are credentials whatever their names are: URLs with a password,
// and private keys.
func secretValue(value string) bool {
	if strings.Contains(value, "PRIVATE KEY-----") {
		return true
	}
	for {
		_, after, found := strings.Cut(value, "://")
		if !found {
			return false
		}
		if hasPassword(after) {
			return true
		}
		value = after
	}
}

// hasPassword reports whether what follows the scheme of a URL begins with a user and a password:
// user:password@. A password may hold slashes that should have been escaped; a port is none.
func hasPassword(rest string) bool {
	if end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || r == '"' || r == '\''
	}); end >= 0 {
		rest = rest[:end]
	}
	user, rest, found := strings.Cut(rest, ":")
	password, _, at := strings.Cut(rest, "@")
	if !found || !at || password == "" || strings.ContainsAny(user, "/?#@[") {
		return false
	}
	port, _, path := strings.Cut(password, "/")
	return !path || strings.Trim(port, "0123456789") != ""
}
