package job

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// Only text that may be about a withheld variable brings it up.
func TestWithheldVariablesAreNamedWhereTheyMatter(t *testing.T) {
	withheld := []string{"HF_TOKEN", "DB_PASSWORD"}
	for text, want := range map[string][]string{
		"":                                  nil,
		"KeyError: 'DB_PASSWORD'":           {"DB_PASSWORD"},
		"a\ntrain.sh: 3: HF_TOKEN: not set": {"HF_TOKEN"},
		"HF_TOKENIZER: not set":             nil,
		"401 Client Error: Unauthorized for url: https://x.org/m":              withheld,
		"botocore.exceptions.NoCredentialsError: Unable to locate credentials": withheld,
		"wandb.errors.UsageError: api_key not configured (no-tty)":             withheld,
		"An error occurred (AccessDenied) when calling GetObject":              withheld,
		"ModuleNotFoundError: No module named 'torch'":                         nil,
		"RuntimeError: 512 tokens, but the model takes 256":                    nil,
		"PermissionError: [Errno 13] Permission denied: '/data/x'":             nil,
	} {
		check.Slice(t, missed(withheld, strings.Split(text, "\n")), want, text)
	}
}
