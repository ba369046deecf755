package workdir

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
)

func TestFolderOfAnArchitectureIsSent(t *testing.T) {
	s := newSite(t)
	pattern := s.local("build." + wire.Arch)
	check.Error(ScanFolders(pattern, DefaultFiles, DefaultBytes)).Is(t, fs.ErrNotExist, "without any folder")
	s.write(s.local("build.arm64/train"), "arm64")
	if _, err := ScanFolders(pattern, 1, 1); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder above the limit: %v", err)
	}
	folders, err := ScanFolders(pattern, 1, 5)
	s.must(err)
	senders := NewSenders(folders, "here", nil, nil, relay.NoMeter{})
	if one, err := senders.For("arm64"); err != nil || one.Tree.Dir != s.local("build.arm64") {
		t.Errorf("%+v, %v", one, err)
	}
	var none *NoFolderError
	if one, err := senders.For("amd64"); !errors.As(err, &none) || none.Dir != s.local("build.amd64") {
		t.Errorf("%+v, %v", one, err)
	}
	s.write(s.local("build.amd64/train"), "amd64")
	folders, err = ScanFolders(pattern, 1, 5)
	check.That(t, err == nil && folders.Files == 2 && folders.Bytes == 10, "%+v, %v", folders, err)
}

func TestFolderNamedLikeAPatternIsOneFolder(t *testing.T) {
	s := newSite(t)
	pattern := s.local(wire.Arch)
	s.write(filepath.Join(pattern, "f"), "")
	s.write(s.local("amd64/f"), "")
	folders, err := ScanFolders(pattern, 1, 1)
	s.must(err)
	for _, processor := range []string{"amd64", "arm64"} {
		one, err := NewSenders(folders, "here", nil, nil, relay.NoMeter{}).For(processor)
		check.That(t, err == nil && one.Tree.Dir == pattern, "%s: %+v, %v", processor, one, err)
	}
}
