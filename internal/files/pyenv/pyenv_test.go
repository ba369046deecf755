package pyenv

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode),
		os.Chmod(name, mode)))
}

// newEnv makes something like a virtual environment.
func newEnv(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "env")
	write(t, dir+"/pyvenv.cfg", "home = /usr/bin\ncommand = /usr/bin/python3 -m venv "+dir+"\n", 0o644)
	write(t, dir+"/bin/tool", "#!"+dir+"/bin/python\nprint('"+dir+"2')\n", 0o755)
	write(t, dir+"/bin/binary", "\x7fELF\x00"+dir+"/lib", 0o755)
	write(t, dir+"/lib/module.py", "# "+dir+"\n", 0o444)
	write(t, dir+"/lib/__pycache__/module.pyc", "compiled", 0o644)
	must.OK(t, errors.Join(os.Symlink("/bin/sh", dir+"/bin/python"), os.Symlink(dir+"/lib", dir+"/lib64"),
		os.Symlink("module.py", dir+"/lib/link"),
		os.Chtimes(dir+"/lib/module.py", time.Unix(1e9, 0), time.Unix(1e9, 0)),
		os.Mkdir(dir+"/empty", 0o555)))
	return dir
}

func scan(t *testing.T, dir string) *Env {
	t.Helper()
	return must.Get(Scan(dir))(t)
}

func offer(e *Env, ask bool) wire.Offer {
	return wire.Offer{Place: wire.Place{Use: wire.UseEnvironment, Name: []byte(e.Key)}, Ask: ask}
}

// in is an offer of an environment below a folder.
func in(base string, o wire.Offer) wire.Offer { o.Dir = []byte(base); return o }

// bring makes the copy of an environment.
func bring(t *testing.T, e *Env, base string) string {
	t.Helper()
	target := must.Get(Open(in(base, offer(e, false)), ""))(t)
	must.OK(t, e.Pack(target.File()))
	path, err := target.Finish()
	must.OK(t, errors.Join(err, target.Close()))
	t.Cleanup(func() { release(target) })
	return path
}

// release gives back the lock that a process holds to its end.
func release(t relay.Target) {
	switch t := t.(type) {
	case *cached:
		unix.Close(t.lock)
		t.lock = -1
	case *present:
		unix.Close(t.lock)
		t.lock = -1
	}
}

func TestCopyIsAtItsOwnPath(t *testing.T) {
	dir := newEnv(t)
	base := t.TempDir()
	e := scan(t, dir)
	if target, err := Open(in(base, offer(e, true)), ""); target != nil || err != nil {
		t.Fatalf("%v, %v", target, err)
	}
	to := bring(t, e, base)
	check.Equal(t, to, filepath.Join(base, e.Key), "it is at")
	for name, want := range map[string]string{
		"pyvenv.cfg": "home = /usr/bin\ncommand = /usr/bin/python3 -m venv " + to + "\n",
		"bin/tool":   "#!" + to + "/bin/python\nprint('" + dir + "2')\n",
		"bin/binary": "\x7fELF\x00" + dir + "/lib", "lib/module.py": "# " + dir + "\n", "lib/link": "# " + dir + "\n",
		"lib64/module.py": "# " + dir + "\n", "lib/__pycache__/module.pyc": "compiled",
	} {
		got, err := os.ReadFile(filepath.Join(to, name))
		check.That(t, err == nil && string(got) == want, "%s holds %q, want %q; %v", name, got, want, err)
	}
	if link, err := os.Readlink(to + "/lib64"); err != nil || link != to+"/lib" {
		t.Errorf("lib64 leads to %s, %v", link, err)
	}
	if info, err := os.Stat(to + "/lib/module.py"); err != nil || info.Mode() != 0o444 || info.ModTime().Unix() != 1e9 {
		t.Errorf("%v, %v", info, err)
	}
	left, _ := filepath.Glob(base + "/*")
	check.That(t, len(left) == 2, "left %v", left)
	// The next job finds it.
	target, err := Open(in(base, offer(e, true)), "")
	ready, is := target.(relay.Ready)
	check.That(t, err == nil && is && ready.Path() == to, "%v, %v", target, err)
	release(target)
}

// An agent that is killed leaves nothing of a pack on the disk.
func TestPackHasNoName(t *testing.T) {
	base := t.TempDir()
	target := must.Get(Open(in(base, offer(scan(t, newEnv(t)), false)), ""))(t)
	left, _ := filepath.Glob(base + "/*")
	check.That(t, len(left) == 0, "a pack is at %v", left)
	check.OK(t, target.Close())
}

// What cleans /var/tmp leaves locked folders alone.
func TestFolderInUseIsLocked(t *testing.T) {
	base := t.TempDir()
	folder := must.Get(os.Open(base))(t)
	defer folder.Close()
	e := scan(t, newEnv(t))
	bring(t, e, base)
	check.Error(unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)).Is(t, unix.EWOULDBLOCK)
}

// Two agents share a folder where two names are one machine, or two jobs begin at once. None waits
// until the other's job has ended.
func TestLaunchesSideBySideShareACopy(t *testing.T) {
	e := scan(t, newEnv(t))
	base := t.TempDir()
	var targets []relay.Target
	for range 3 {
		target, err := Open(in(base, offer(e, false)), "")
		if err == nil {
			err = e.Pack(target.File())
		}
		must.OK(t, err)
		defer release(target)
		targets = append(targets, target)
	}
	finished := make(chan string)
	for _, target := range targets {
		go func() {
			path, err := target.Finish()
			finished <- fmt.Sprint(path, errors.Join(err, target.Close()))
		}()
	}
	for range targets {
		want := fmt.Sprint(filepath.Join(base, e.Key), nil)
		check.Equal(t, <-finished, want)
	}
}

func TestKeyFollowsTheFiles(t *testing.T) {
	dir := newEnv(t)
	key := scan(t, dir).Key
	write(t, dir+"/lib/__pycache__/other.pyc", "compiled later", 0o644)
	check.That(t, scan(t, dir).Key == key, "a compiled file makes another environment")
	write(t, dir+"/lib/more.py", "", 0o644)
	check.That(t, scan(t, dir).Key != key, "a new file makes no other environment")
	var none *NoEnvError
	check.Error(Scan(t.TempDir())).As(t, &none)
}

func TestMissingInterpreterIsNamed(t *testing.T) {
	dir := newEnv(t)
	base := t.TempDir()
	must.OK(t, errors.Join(os.Remove(dir+"/bin/python"), os.Symlink("/no/such/python3.9", dir+"/bin/python")))
	e := scan(t, dir)
	target := must.Get(Open(in(base, offer(e, false)), ""))(t)
	defer target.Close()
	defer release(target)
	must.OK(t, e.Pack(target.File()))
	check.Error(target.Finish()).Says(t, "interpreter /no/such/python3.9 is not on this host")
	check.Error(os.Stat(filepath.Join(base, e.Key))).Any(t, "half an environment is there")
}

// The longest unused goes first, and none that is in use.
func TestCacheIsBounded(t *testing.T) {
	base := t.TempDir()
	var envs []*Env
	for i := range 4 {
		dir := newEnv(t)
		e := scan(t, dir)
		envs = append(envs, e)
		bring(t, e, base)
		at := time.Unix(int64(1e9+i), 0)
		must.OK(t, os.Chtimes(filepath.Join(base, e.Key+".lock"), at, at))
	}
	there := func() (have string) {
		for i, e := range envs {
			if _, err := os.Stat(filepath.Join(base, e.Key)); err == nil {
				have += string(rune('0' + i))
			}
		}
		return have
	}
	last := &cached{base: base, key: envs[3].Key}
	last.evict(1, maxBytes)
	check.That(t, there() == "0123", "all are in use, and %s are left", there())
	unlockAll(t)
	last.evict(3, maxBytes)
	check.Equal(t, there(), "123", "left")
	size := scan(t, envs[3].Dir).Bytes
	last.evict(10, 2*size+size/2)
	check.That(t, there() == "23", "left %s of %d bytes each", there(), size)
	left, _ := filepath.Glob(base + "/*")
	check.That(t, len(left) == 4, "left %v", left)
}

// unlockAll closes the locks of this process.
func unlockAll(t *testing.T) {
	list := must.Get(os.ReadDir("/proc/self/fd"))(t)
	for _, f := range list {
		if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasSuffix(name, ".lock") {
			var fd int
			for _, c := range f.Name() {
				fd = 10*fd + int(c-'0')
			}
			_ = unix.Flock(fd, unix.LOCK_UN)
		}
	}
}

// A pack writes nothing outside the environment.
func TestHostilePacks(t *testing.T) {
	outside := t.TempDir()
	for name, list := range map[string][]*tar.Header{
		"parent":   {{Name: "../x", Typeflag: tar.TypeReg}},
		"absolute": {{Name: outside + "/x", Typeflag: tar.TypeReg}},
		"through link": {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside},
			{Name: "l/x", Typeflag: tar.TypeReg}},
		"over a link": {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside + "/x"},
			{Name: "l", Typeflag: tar.TypeReg}},
		"device":    {{Name: "d", Typeflag: tar.TypeChar}},
		"hard link": {{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"pipe":      {{Name: "p", Typeflag: tar.TypeFifo}},
		"sparse":    {{Name: "s", Typeflag: tar.TypeGNUSparse}},
		"itself":    {{Name: ".", Typeflag: tar.TypeReg}},
		"a folder that has become a link": {{Name: "f", Typeflag: tar.TypeDir}, {Name: "f", Typeflag: tar.TypeSymlink,
			Linkname: outside}},
		"a name that is too long": {{Name: strings.Repeat("x", 300), Typeflag: tar.TypeReg}},
		"too many": {{Name: "1", Typeflag: tar.TypeDir}, {Name: "2", Typeflag: tar.TypeDir},
			{Name: "3", Typeflag: tar.TypeDir}},
		"too large": {{Name: "l", Typeflag: tar.TypeReg, Size: 1025}},
		"large after all": {{Name: "1", Typeflag: tar.TypeReg, Size: 1000},
			{Name: "2", Typeflag: tar.TypeReg, Size: 25}},
		"larger than life": {{Name: "l", Typeflag: tar.TypeReg, Size: 1 << 62}},
	} {
		var pack bytes.Buffer
		zip := gzip.NewWriter(&pack)
		archive := tar.NewWriter(zip)
		_ = archive.WriteHeader(&tar.Header{Name: prefixFile, Size: 4, Typeflag: tar.TypeReg})
		_, _ = io.WriteString(archive, "/env")
		for _, h := range list {
			_ = archive.WriteHeader(h)
			_, _ = archive.Write(make([]byte, min(h.Size, 2000)))
		}
		_ = archive.Close()
		_ = zip.Close()
		err := unpack(&pack, t.TempDir(), "/final", room{files: 2, names: 3, bytes: 1024})
		check.That(t, err != nil, "%s: no error", name)
	}
	left, _ := os.ReadDir(outside)
	check.That(t, len(left) == 0, "outside now holds %v", left)
}

// A million folders with paths of kilobytes would take gigabytes of a host's memory if all were
// kept, and an hour if each path had thousands of names.
func TestDeepFoldersTakeLittle(t *testing.T) {
	dir := t.TempDir()
	u := unpacker{root: must.Get(os.OpenRoot(dir))(t), room: room{1000, 4000, 0}}
	defer u.root.Close()
	at := time.Unix(1e9, 0)
	most := 0
	made := func(name string) error {
		must.OK(t, u.leave(name))
		err := u.one(&tar.Header{Name: name, Typeflag: tar.TypeDir, ModTime: at}, nil)
		most = max(most, len(u.within))
		return err
	}
	must.OK(t, errors.Join(made("a"), made("a/b"), made("a/b/c")))
	for i := range 100 {
		must.OK(t, made(fmt.Sprintf("a/b/c/%d", i)))
	}
	must.OK(t, errors.Join(made("ab"), u.leave(".")))
	check.That(t, most == 4 && len(u.within) == 0, "%d folders waited, and %d do", most, len(u.within))
	for _, name := range []string{"a", "a/b", "a/b/c", "a/b/c/7", "ab"} {
		info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		check.That(t, info.ModTime().Equal(at), "%s is of %v", name, info.ModTime())
	}
	u.room.names = 3
	check.Error(made("a/b/c/d")).Says(t, "too deep folders")
}

// Setuid bits do not come through.
func TestPacksHaveNoPrivileges(t *testing.T) {
	var pack bytes.Buffer
	zip := gzip.NewWriter(&pack)
	archive := tar.NewWriter(zip)
	err := archive.WriteHeader(&tar.Header{Name: prefixFile, Size: 4, Typeflag: tar.TypeReg})
	if err == nil {
		_, err = io.WriteString(archive, "/env")
	}
	dir := t.TempDir()
	must.OK(t, errors.Join(err, archive.WriteHeader(&tar.Header{Name: "x", Mode: 0o7755, Typeflag: tar.TypeReg}),
		archive.Close(), zip.Close(), unpack(&pack, dir, "/final", room{maxFiles, maxNames, maxBytes})))
	info, err := os.Stat(dir + "/x")
	check.That(t, err == nil && info.Mode() == 0o755, "%v, %v", info.Mode(), err)
}

// A file with a hole may be larger than all disks.
func TestHugeEnvironmentIsRefused(t *testing.T) {
	dir := newEnv(t)
	write(t, dir+"/lib/hole", "", 0o644)
	must.OK(t, os.Truncate(dir+"/lib/hole", maxBytes))
	check.Error(Scan(dir)).Says(t, "32 GiB")
}

func TestFolderOfOthersIsNotUsed(t *testing.T) {
	base := filepath.Join(t.TempDir(), "env")
	must.OK(t, errors.Join(os.Mkdir(base, 0o700), os.Chmod(base, 0o777)))
	e := scan(t, newEnv(t))
	check.Error(Open(in(base, offer(e, false)), "")).Says(t, "others can change")
	for _, key := range []string{"", "../x", "x", strings.Repeat("a", 31)} {
		o := in(t.TempDir(), offer(e, false))
		o.Name = []byte(key)
		check.Error(Open(o, "")).Any(t, key, "is a key")
	}
}
