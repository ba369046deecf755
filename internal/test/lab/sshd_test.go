package lab

import (
	"errors"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestMissingSSHDSaysWhatToInstall(t *testing.T) {
	_, err := findProgram("sshd-that-is-not-there", "/nonexistent/sshd")
	var missing *MissingError
	check.That(t, errors.As(err, &missing) && strings.Contains(err.Error(), "install openssh-server"), "got %v", err)
}
