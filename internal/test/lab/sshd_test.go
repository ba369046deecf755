package lab

import (
	"errors"
	"strings"
	"testing"
)

func TestMissingSSHDSaysWhatToInstall(t *testing.T) {
	_, err := findProgram("sshd-that-is-not-there", "/nonexistent/sshd")
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "install openssh-server") {
		t.Errorf("got %v", err)
	}
}
