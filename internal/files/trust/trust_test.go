package trust

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

const stranger = 65533

// folder returns a folder that is safe, whatever the umask and TMPDIR are.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.Chmod(dir, 0o755))
	must.OK(t, Check(dir))
	return dir
}

func TestCheck(t *testing.T) {
	lab.NeedRoot(t)
	dir := folder(t)
	file := func(name string, mode os.FileMode, owner, group int) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, nil, 0o600))
		must.OK(t, os.Chmod(path, mode))
		must.OK(t, os.Chown(path, owner, group))
	}
	folder := func(name string, mode os.FileMode, owner, group int) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(path, 0o755))
		must.OK(t, os.Chmod(path, mode))
		must.OK(t, os.Chown(path, owner, group))
	}
	link := func(target, name string, owner int) {
		t.Helper()
		must.OK(t, os.Symlink(target, filepath.Join(dir, name)))
		must.OK(t, os.Lchown(filepath.Join(dir, name), owner, owner))
	}
	file("own", 0o755, 0, 0)
	file("theirs", 0o755, stranger, stranger)
	file("for-all", 0o757, 0, 0)
	file("for-a-group", 0o775, 0, stranger)
	file("for-the-private-group", 0o775, 0, 0)
	file("open/own", 0o755, 0, 0)
	folder("open", 0o777, 0, 0)
	file("sticky/own", 0o755, 0, 0)
	file("sticky/theirs", 0o755, stranger, stranger)
	link("../own", "sticky/own-link", 0)
	link("../own", "sticky/their-link", stranger)
	folder("sticky", 0o777|os.ModeSticky, 0, 0)
	file("their-folder/own", 0o755, 0, 0)
	folder("their-folder", 0o755, stranger, stranger)
	link("own", "link", 0)
	link(dir+"/theirs", "link-to-theirs", 0)
	link("open", "link-to-open", 0)
	link("loop", "loop", 0)
	for name, unsafe := range map[string]string{
		"own": "", "link": "", "sticky/own": "", "sticky/own-link": "", "for-the-private-group": "",
		"theirs": "theirs", "for-all": "for-all", "for-a-group": "for-a-group", "open/own": "open",
		"sticky/theirs":     "sticky/theirs",
		"sticky/their-link": "sticky/their-link", "their-folder/own": "their-folder", "link-to-theirs": "theirs",
		"link-to-open/own":    "open",
		"link-to-open/../own": "open", // open could have been anywhere, when .. was looked up
	} {
		var refused *Error
		switch err := Check(dir + "/" + name); {
		case unsafe == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case unsafe != "" && (!errors.As(err, &refused) || refused.Path != filepath.Join(dir, unsafe)):
			t.Errorf("%s: %v, want one about %s", name, err, unsafe)
		}
	}
	for _, name := range []string{"loop", "nothing", "own/below"} {
		var refused *Error
		err := Check(dir + "/" + name)
		check.That(t, err != nil && !errors.As(err, &refused), "%s: %v", name, err)
	}
	t.Chdir(dir)
	check.OK(t, Check("own"))
	check.That(t, Check("theirs") != nil, "a relative path to another user's file is taken")
}

func TestServedBy(t *testing.T) {
	const text = `22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:41 / /home/ada/mine rw,nosuid,nodev - fuse.sshfs h:/ rw,user_id=1000,group_id=1000,allow_other
41 22 0:42 / /var/tmp/gorun-1000 rw,nosuid,nodev shared:7 master:2 - fuse.evil evil,user_id=0 rw,user_id=1001,group_id=1001,allow_other
43 22 0:44 / /mnt/root rw - fuseblk /dev/sdb rw,user_id=0,group_id=0
44 22 0:45 / /mnt/odd rw - fuse evil rw,user_id=
45 22 0:46 / /mnt/host rw - virtiofs host rw
46 22 0:47 / /mnt/cut rw
` + "47 22 0:48 / /mnt/x rw - fuse.evil x\vuser_id=0 rw,user_id=1001\n" +
		"48 22 0:49 / /mnt/y\r22 rw - fuse.evil - rw,user_id=1001\n" +
		"49 22 0:50 / /mnt/z rw - fuse.evil user_id=0\u00a0x rw,user_id=1001\n" +
		"50 22 0:51 / /mnt/e rw - fuse.evil  rw,user_id=1001\n"
	for number, want := range map[string]struct {
		user  int
		known bool
	}{"22": {0, true}, "40": {1000, true}, "41": {1001, true}, "43": {0, true}, "44": {-1, true}, "45": {0, true},
		"46": {0, false}, "47": {1001, true}, "48": {1001, true}, "49": {1001, true},
		"50": {1001, true}, "4": {0, false}, "": {0, false}} {
		user, known := servedBy(text, number)
		check.That(t, user == want.user && known == want.known, "%s: %d, %v", number, user, known)
	}
}

// Create writes to new files and the user's own, and through links of the user, and never to what
// is another user's.
func TestCreate(t *testing.T) {
	lab.NeedRoot(t)
	dir := folder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.Mkdir(in("shared"), 0o755))
	must.OK(t, os.Chmod(in("shared"), 0o777)) // not sticky: others may exchange what they like
	write := func(name, text string, owner int) {
		t.Helper()
		must.OK(t, os.WriteFile(in(name), []byte(text), 0o666))
		must.OK(t, os.Chown(in(name), owner, owner))
	}
	write("own", "old", 0)
	write("precious", "old", 0)
	write("theirs", "old", stranger)
	must.OK(t, os.Symlink("own", in("link")))
	must.OK(t, os.Symlink("new-behind-link", in("link-to-new")))
	must.OK(t, os.Symlink("../precious", in("shared/their-link")))
	must.OK(t, os.Lchown(in("shared/their-link"), stranger, stranger))
	must.OK(t, os.Symlink("..", in("shared/their-folder")))
	must.OK(t, os.Lchown(in("shared/their-folder"), stranger, stranger))
	must.OK(t, os.Link(in("precious"), in("shared/second-name")))
	must.OK(t, syscall.Mkfifo(in("shared/their-pipe"), 0o666)) // to open it would take a reader
	must.OK(t, os.Chown(in("shared/their-pipe"), stranger, stranger))

	for _, name := range []string{"own", "link", "new", "link-to-new", "shared/new", "./shared/../other"} {
		check.OK(t, CheckOutput(dir+"/"+name), name)
		f, err := Create(dir + "/" + name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err = io.WriteString(f, "ours")
		must.OK(t, errors.Join(err, f.Close()))
		text, err := os.ReadFile(dir + "/" + name)
		check.That(t, err == nil && string(text) == "ours", "%s: %q, %v", name, text, err)
	}
	info, err := os.Stat(in("new-behind-link"))
	check.That(t, err == nil && info.Mode().Perm() == 0o600, "a new file is %v, %v", info, err)
	for _, name := range []string{"theirs", "shared/their-link", "shared/their-folder/new", "shared/second-name",
		"shared/their-pipe"} {
		var refused *Error
		check.Error(CheckOutput(in(name))).As(t, &refused, name)
		if f, err := Create(in(name)); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
			f.Close()
		}
	}
	for _, name := range []string{"precious", "theirs"} {
		text, err := os.ReadFile(in(name))
		check.That(t, err == nil && string(text) == "old", "%s has %q, %v", name, text, err)
	}
	check.Error(Create(in("none/new"))).Is(t, os.ErrNotExist)
	check.Error(Create(dir)).Any(t, "a folder is a file")
}

// Append follows links of the user and no other ones. What it opens may be another user's.
func TestAppend(t *testing.T) {
	lab.NeedRoot(t)
	dir := folder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.WriteFile(in("precious"), []byte("old"), 0o600))
	for name, owner := range map[string]int{"own": 0, "theirs": stranger} {
		must.OK(t, os.Symlink("precious", in(name)))
		must.OK(t, os.Lchown(in(name), owner, owner))
	}
	must.OK(t, os.WriteFile(in("shared"), []byte("old"), 0o600))
	must.OK(t, os.Chown(in("shared"), stranger, stranger))
	var refused *Error
	if f, err := Append(in("theirs")); !errors.As(err, &refused) {
		t.Errorf("a link of another user's: %v", err)
		f.Close()
	}
	for name, want := range map[string]string{"new": "", "own": "old", "shared": "old"} {
		f := must.Get(Append(in(name)))(t)
		text, err := io.ReadAll(f)
		check.That(t, err == nil && string(text) == want, "%s has %q, %v", name, text, err)
		_, err = f.WriteAt([]byte("x"), 0)
		check.That(t, err != nil, "%s can be changed", name)
		f.Close()
	}
}

// Another user who puts a pipe in the place of a file that has been judged makes nobody wait.
func TestCreateWaitsForNoPipeThatTakesThePlace(t *testing.T) {
	lab.NeedRoot(t)
	dir := folder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.WriteFile(in("out"), nil, 0o600))
	must.OK(t, syscall.Mkfifo(in("pipe"), 0o600))
	must.OK(t, os.Chown(in("pipe"), stranger, stranger))
	created := make(chan struct{})
	go func() {
		defer close(created)
		for range 5000 {
			if f, err := Create(in("out")); err == nil {
				f.Close()
			}
		}
	}()
	for late := time.After(30 * time.Second); ; {
		select {
		case <-created:
			return
		case <-late:
			t.Fatal("Create waits for somebody who reads the pipe")
		default:
			must.OK(t, unix.Renameat2(unix.AT_FDCWD, in("out"), unix.AT_FDCWD, in("pipe"), unix.RENAME_EXCHANGE))
		}
	}
}

// Devices, pipes of the user and open descriptors are written to as they are.
func TestCreateSpecialFiles(t *testing.T) {
	null := must.Get(Create(os.DevNull))(t)
	null.Close()
	r, w := must.GetTwo(os.Pipe())(t)
	defer r.Close()
	f, err := Create(filepath.Join("/dev/fd", strconv.Itoa(int(w.Fd()))))
	must.OK(t, err)
	w.Close()
	_, err = io.WriteString(f, "through a pipe")
	must.OK(t, errors.Join(err, f.Close()))
	text, err := io.ReadAll(r)
	check.That(t, err == nil && string(text) == "through a pipe", "%q, %v", text, err)
}

func TestMakeDir(t *testing.T) {
	lab.NeedRoot(t)
	dir := folder(t)
	t.Chdir(dir)
	must.OK(t, os.MkdirAll("theirs/in", 0o755))
	must.OK(t, os.Chown("theirs", stranger, stranger))
	must.OK(t, os.Mkdir("real", 0o755))
	must.OK(t, os.Symlink("real", "link"))
	for _, name := range []string{"a/b/c", "a", "link/d", dir + "/e", ".", "real"} {
		check.OK(t, MakeDir(name), name)
	}
	info, err := os.Stat("real/d")
	check.That(t, err == nil && info.Mode().Perm() == 0o700, "%v, %v", info, err)
	var refused *Error
	check.Error(MakeDir("theirs")).As(t, &refused, "another user's folder")
}

// TestHintsMayBePasted has a shell run the commands of hints about files with odd names.
func TestHintsMayBePasted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "it's; exit 1 $(false)")
	create := func(path string) error {
		file, err := Create(path)
		if err == nil {
			file.Close()
		}
		return err
	}
	for name, refuses := range map[string]func(string) error{"open to others": Check, "a second name": create} {
		t.Run(name, func(t *testing.T) {
			err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666))
			if name == "a second name" {
				err = errors.Join(err, os.Link(path, path+"2"))
			}
			must.OK(t, err)
			var refused *Error
			err = refuses(path)
			must.That(t, errors.As(err, &refused), "%v", err)
			_, command, _ := strings.Cut(refused.Hint(), ": ")
			out, err := exec.Command("sh", "-c", command).CombinedOutput()
			check.That(t, err == nil, "%s: %v\n%s", command, err, out)
			check.OK(t, refuses(path), "after", command)
		})
	}
}

// Files are renamed and removed in folders that links of another user do not lead to.
func TestRenameAndRemoveFollowNoLinksOfOthers(t *testing.T) {
	lab.NeedRoot(t)
	dir := folder(t)
	t.Chdir(dir)
	must.OK(t, errors.Join(os.Mkdir("own", 0o700), os.Mkdir("old", 0o700), os.Symlink("own", "own-link"),
		os.Symlink("old", "their-link"), os.Lchown("their-link", stranger, stranger),
		os.WriteFile("own/a", []byte("a"), 0o600), os.WriteFile("old/a", []byte("old"), 0o600)))
	for _, err := range []error{
		Rename("own/a", "their-link/a"),
		Rename("their-link/a", "own/a"),
		Remove("their-link/a"),
	} {
		var refused *Error
		check.Error(err).As(t, &refused)
	}
	check.OK(t, Rename("own-link/a", "own/b"))
	check.Error(Rename("own/a", "own/b")).Is(t, fs.ErrNotExist)
	check.OK(t, Remove(dir+"/own/b"))
	check.Error(Remove("own/b")).Is(t, fs.ErrNotExist)
	text, err := os.ReadFile("old/a")
	check.That(t, err == nil && string(text) == "old", "%q, %v", text, err)
}
