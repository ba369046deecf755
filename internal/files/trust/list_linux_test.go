package trust

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A file that an access control list lets others write is not the user's alone, also if a link
// leads to it.
func TestListsOfAccessCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(path, nil, 0o600))
	must.OK(t, os.Chmod(path, 0o660))
	if os.Chown(path, -1, os.Getuid()) != nil {
		t.Skip("this user has no private group")
	}
	link := path + "2"
	must.OK(t, os.Symlink("file", link))
	file := must.Get(os.Open(link))(t)
	defer file.Close()
	must.OK(t, Check(path))
	must.OK(t, File(file, link))
	var list bytes.Buffer
	must.OK(t, binary.Write(&list, binary.LittleEndian, uint32(2)))
	for _, entry := range []struct {
		Tag, Perm uint16
		ID        int32
	}{{1, 6, -1}, {2, 6, 12345}, {4, 6, -1}, {16, 6, -1}, {32, 0, -1}} { // acl(5)
		must.OK(t, binary.Write(&list, binary.LittleEndian, entry))
	}
	if err := unix.Setxattr(path, accessList, list.Bytes(), 0); err != nil {
		t.Skipf("no lists here: %v", err)
	}
	check.That(t, Check(path) != nil, "a path passes")
	check.That(t, File(file, link) != nil, "an open file passes")
}
