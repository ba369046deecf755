package python

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// PyPI's gorun is another project, and has a command of the same name: beside it, the package says
// how to get rid of it.
func TestTheOtherGorunIsRefused(t *testing.T) {
	for neighbour, refused := range map[string]bool{
		"gorun-1.7.dist-info": true, "gorun-1.7-py3.9.egg-info": true, "gorun-1.7.egg": true,
		"gorun_launcher-0.2.0.dist-info": false, "gorun_tools-1.7.dist-info": false,
	} {
		site := t.TempDir()
		here, err := filepath.Abs("gorun")
		if err == nil {
			err = os.Symlink(here, filepath.Join(site, "gorun"))
		}
		if err == nil {
			err = os.Mkdir(filepath.Join(site, neighbour), 0o755)
		}
		must.OK(t, err)
		cmd := exec.CommandContext(t.Context(), interpreter, "-B", "-c", "import gorun; print(gorun.__file__)")
		cmd.Dir = site
		cmd.Env = append(os.Environ(), "PYTHONPATH="+site)
		out, err := cmd.CombinedOutput()
		if refused && (err == nil || !strings.Contains(string(out), "ImportError: gorun: the distribution gorun 1.7 "+
			"is also installed in "+site) || !strings.Contains(string(out), "pip uninstall gorun;")) {
			t.Errorf("%s: %v\n%s", neighbour, err, out)
		}
		check.That(t, refused || err == nil && strings.HasPrefix(string(out), site), "%s: %v\n%s", neighbour, err, out)
	}
}

// Programs and libraries of a checkout are taken from one that is gorun's and that no other user
// can change: the package may lie below any folder, such as /tmp.
func TestCheckoutsOfOthersAreNotUsed(t *testing.T) {
	lab.NeedRoot(t)
	const attacker = 65533
	const module = "module github.com/gorun/gorun\n\ngo 1.26\n"
	own := func(paths ...string) func(root string) error {
		return func(root string) (err error) {
			for _, path := range paths {
				err = errors.Join(err, os.Lchown(filepath.Join(root, path), attacker, attacker))
			}
			return err
		}
	}
	for name, tc := range map[string]struct {
		place  string // of the package below the root
		module string // text of go.mod; "": there is none
		change func(root string) error
		found  bool
	}{
		"a checkout":             {"ring/python/gorun", module, own(), true},
		"no checkout":            {"ring/python/gorun", "", own(), false},
		"a checkout of another":  {"ring/python/gorun", "module example.com/x\n", own(), false},
		"a site three below":     {"job/site/gorun", module, own(), false},
		"files of another user":  {"ring/python/gorun", module, own("bin/gorun", "lib/libring.so"), false},
		"folders of another":     {"ring/python/gorun", module, own("bin", "lib"), false},
		"go.mod of another user": {"ring/python/gorun", module, own("go.mod"), false},
		"open to all": {"ring/python/gorun", module, func(root string) error {
			return os.Chmod(root, 0o777)
		}, false},
		"open to a group": {"ring/python/gorun", module, func(root string) error {
			return errors.Join(os.Chown(root, 0, attacker), os.Chmod(root, 0o775))
		}, false},
		"open to the user's group": {"ring/python/gorun", module, func(root string) error {
			return os.Chmod(root, 0o775)
		}, true},
		"a link to another's": {"ring/python/gorun", module, func(root string) (err error) {
			for _, path := range []string{"bin/gorun", "lib/libring.so"} {
				file := filepath.Join(root, path)
				err = errors.Join(err, os.Rename(file, file+".theirs"), os.Symlink(filepath.Base(file)+".theirs", file),
					os.Lchown(file+".theirs", attacker, attacker))
			}
			return err
		}, false},
		"an own link": {"ring/python/gorun", module, func(root string) (err error) {
			for _, path := range []string{"bin/gorun", "lib/libring.so"} {
				file := filepath.Join(root, path)
				err = errors.Join(err, os.Rename(file, file+".1"), os.Symlink("../"+path+".1", file))
			}
			return err
		}, true},
	} {
		root := t.TempDir()
		err := errors.Join(os.Chmod(root, 0o755), os.CopyFS(filepath.Join(root, tc.place), os.DirFS("gorun")))
		for path, text := range map[string]string{"go.mod": tc.module, "bin/gorun": "#!/bin/sh\n",
			"lib/libring.so": "library"} {
			if text == "" {
				continue
			}
			file := filepath.Join(root, path)
			err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755))
		}
		must.OK(t, errors.Join(err, tc.change(root)))
		for _, find := range []string{"_ring.find_library()", "_run.find_gorun()"} {
			cmd := exec.CommandContext(t.Context(), interpreter, "-B", "-c",
				"from gorun import _ring, _run; print("+find+")")
			cmd.Dir = root
			cmd.Env = []string{"PATH=/nowhere", "PYTHONPATH=" + filepath.Dir(filepath.Join(root, tc.place))}
			out, err := cmd.CombinedOutput()
			if found := err == nil && strings.HasPrefix(string(out), root); found != tc.found ||
				err != nil && !strings.Contains(string(out), "GorunError: gorun: there is no") {
				t.Errorf("%s: %s: %v\n%s", name, find, err, out)
			}
		}
	}
}

// A wheel has no files of a folder that is above its sources by chance, and none that another user
// could have changed, unless its builder names them.
func TestWheelHasNoFilesOfOthers(t *testing.T) {
	lab.NeedRoot(t)
	const attacker = 65533
	const module = "module github.com/gorun/gorun\n"
	const build = `import sys, types
name = "hatchling.builders.hooks.plugin.interface"
for i in range(len(name.split("."))):
    sys.modules[".".join(name.split(".")[: i + 1])] = types.ModuleType("x")
sys.modules[name].BuildHookInterface = object
sys.path.insert(0, "ring/python")
import hatch_build
hook = hatch_build.Hook()
hook.root = "ring/python"
hook.target_name = "wheel"
data = {}
hook.initialize("1", data)
print(data["shared_scripts"])`
	for name, tc := range map[string]struct {
		module string // text of go.mod; "": there is none
		theirs string // file of another user
		built  bool   // GORUN_BUILT names the folder
		builds bool
	}{
		"a checkout":           {module, "", false, true},
		"no checkout":          {"", "", false, false},
		"another checkout":     {"module example.com/x\n", "", false, false},
		"go.mod of another":    {module, "go.mod", false, false},
		"a program of another": {module, "bin/gorun", false, false},
		"a library of another": {module, "lib/libring.so", false, false},
		"a folder of another":  {module, "bin", false, false},
		"a named folder":       {"", "bin/gorun", true, true},
	} {
		root := t.TempDir()
		own := filepath.Join(root, "ring/python")
		must.OK(t, errors.Join(os.Chmod(root, 0o755), os.CopyFS(filepath.Join(own, "gorun"), os.DirFS("gorun"))))
		program := must.Get(os.ReadFile("/bin/true"))(t)
		all := map[string][]byte{
			"ring/python/hatch_build.py": must.Get(os.ReadFile("hatch_build.py"))(t),
			"lib/ring.h":                 nil,
			"lib/libring.so":             program,
		}
		for _, file := range []string{"gorun", "gorun-gpu", "gorun-bench", "gorun-ompi4.so"} {
			all["bin/"+file] = program
		}
		if tc.module != "" {
			all["go.mod"] = []byte(tc.module)
		}
		for path, text := range all {
			file := filepath.Join(root, path)
			must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o755)))
		}
		if tc.theirs != "" {
			must.OK(t, os.Lchown(filepath.Join(root, tc.theirs), attacker, attacker))
		}
		cmd := exec.CommandContext(t.Context(), interpreter, "-B", "-c", build)
		cmd.Dir = root
		if tc.built {
			cmd.Env = append(os.Environ(), "GORUN_BUILT="+root)
		}
		out, err := cmd.CombinedOutput()
		want := "others than you"
		if tc.builds {
			want = root + "/bin/gorun-gpu"
		}
		check.That(t, (err == nil) == tc.builds && strings.Contains(string(out), want), "%s: %v\n%s", name, err, out)
	}
}

// A file system in user space is trusted if its process is the user's or root's.
func TestFileSystemsOfOthersAreKnown(t *testing.T) {
	const mounts = `22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:41 / /home/ada/mine rw,nosuid,nodev - fuse.sshfs h:/ rw,user_id=%[1]d,group_id=0,allow_other
41 22 0:42 / /tmp/bin rw,nosuid,nodev shared:7 master:2 - fuse.evil evil,user_id=0 rw,user_id=65533,allow_other
43 22 0:44 / /mnt/root rw - fuseblk /dev/sdb rw,user_id=0,group_id=0
46 22 0:47 / /mnt/host rw - virtiofs host rw
` + "47 22 0:48 / /tmp/a\rb rw - fuse.evil evil rw,user_id=65533\n" +
		"48 22 0:49 / /tmp/\xff rw - fuse.evil user_id=0\rx rw,user_id=65533\n" +
		"49 22 0:50 / /tmp/c rw - fuse.evil x\vuser_id=0 rw,user_id=65533\n"
	for number, want := range map[string]string{"22": "False", "40": "False", "41": "True", "43": "False",
		"46": "False", "47": "True", "48": "True", "49": "True", "9": "None", "": "None"} {
		cmd := exec.CommandContext(t.Context(), interpreter, "-B", "-c", "import sys\nfrom gorun import _checkout\n"+
			"print(_checkout._served_by_others(sys.stdin.buffer, sys.argv[1].encode()))", number)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(mounts, os.Geteuid()))
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %s, %v; want %s", number, out, err, want)
		}
	}
}

// A process of another user that serves a file system, and does not answer, holds nobody up.
func TestSilentFileSystemsOfOthersAreNotAsked(t *testing.T) {
	lab.NeedRoot(t)
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		lab.Skip(t, "needs /dev/fuse")
	}
	dir := t.TempDir()
	must.OK(t, unix.Mount("silent", dir, "fuse.silent", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=65533,group_id=65533,allow_other", device)))
	t.Cleanup(func() { check.OK(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	late := time.AfterFunc(30*time.Second, func() { unix.Close(device) }) // which ends what waits for an answer
	out, err := exec.CommandContext(t.Context(), interpreter, "-B", "-c",
		"import sys; from pathlib import Path; from gorun import _checkout; print(_checkout.safe(Path(sys.argv[1])))",
		dir).CombinedOutput()
	check.That(t, late.Stop() && err == nil && string(out) == "False\n", "%s, %v", out, err)
	unix.Close(device)
}

// Versions are those of tags, in the form that pip compares.
func TestVersionOfTheDistribution(t *testing.T) {
	for described, want := range map[string]string{
		"v0.2.0-0-g1234567":      "0.2.0",
		"v0.2.0-5-g1234567":      "0.2.0.post5+g1234567",
		"v1.0.0-rc1-0-g1234567":  "1.0.0rc1",
		"v1.0.0-rc.2-3-gabcdef0": "1.0.0rc2.post3+gabcdef0",
		"v1.0-beta1-0-g1234567":  "1.0b1",
		"something-0-g1234567":   "",
		"":                       "",
	} {
		out, err := exec.CommandContext(t.Context(), interpreter, "-B", "-c",
			"import sys, version; print(version.number(sys.argv[1]))", described).CombinedOutput()
		got := strings.TrimSpace(string(out))
		check.That(t, err == nil && got == want, "%s is %s, want %s (%v)", described, got, want, err)
	}
}
