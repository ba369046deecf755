package faults

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// Limits of a launcher under any fault. Each host adds its share to descriptors and threads.
const (
	maxRSS     = 96 << 10 // KiB
	maxFDs     = 48
	maxThreads = 48
	perHost    = 8
)

// usage is the peak use of the launcher.
type usage struct{ RSS, FDs, Threads int }

// sample records, until the launcher's end, its use of resources and whether the canary shows in an
// argument list.
func (j *Job) sample() {
	defer close(j.sampled)
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		u := usageOf(j.Launcher())
		if i == 0 {
			u.FDs = 0 // an exec may still be closing the descriptors of its parent
		}
		j.used = usage{max(j.used.RSS, u.RSS), max(j.used.FDs, u.FDs), max(j.used.Threads, u.Threads)}
		if i%5 == 1 { // these are long looks
			if j.leak == "" {
				j.leak = inArguments(j.canary)
			}
			j.Processes("")
		}
		select {
		case <-j.ended:
			return
		case <-tick.C:
		}
	}
}

func usageOf(pid int) (u usage) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	text, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch n, _ := strconv.Atoi(f[1]); f[0] {
		case "VmHWM:":
			u.RSS = n
		case "Threads:":
			u.Threads = n
		}
	}
	fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
	u.FDs = len(fds)
	return u
}

// over returns what of u exceeds the limits of a launcher of so many hosts.
func (u usage) over(hosts int) (broken []string) {
	for _, x := range []struct {
		what     string
		got, may int
	}{{"KiB of memory", u.RSS, maxRSS}, {"descriptors", u.FDs, maxFDs + perHost*hosts},
		{"threads", u.Threads, maxThreads + perHost*hosts}} {
		if x.got > x.may {
			broken = append(broken, fmt.Sprintf("I8: the launcher had %d %s, more than %d", x.got, x.what, x.may))
		}
	}
	return broken
}

// inArguments returns a process with text in its arguments, which every user of a machine can read.
func inArguments(text string) string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); bytes.Contains(line, []byte(text)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return "an argument of " + describe([]int{pid})
		}
	}
	return ""
}

// inFiles returns the files that contain text: in the job's home, with its temporary ones, and in
// the hosts' homes and logs.
func inFiles(j *Job, text string) (found []string) {
	dirs := []string{j.Home}
	if j.Cluster != nil {
		for i := range j.Cluster.Hosts {
			dirs = append(dirs, hostFiles(&j.Cluster.Hosts[i])...)
		}
	}
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if info, err := d.Info(); err != nil || info.Size() > 1<<20 { // programs, which hold no job's secrets
				return nil
			}
			if data, _ := os.ReadFile(path); bytes.Contains(data, []byte(text)) {
				found = append(found, "the file "+path)
			}
			return nil
		})
	}
	return found
}

func hostFiles(h *lab.Host) (files []string) {
	files = append(files, h.Log)
	if h.Home != "" {
		files = append(files, h.Home)
	}
	return files
}

// leaks returns where the canary, a secret of the job's environment, was seen. Call it after the
// job's end.
func (j *Job) leaks() (found []string) {
	<-j.sampled
	if j.leak != "" {
		found = append(found, j.leak)
	}
	if strings.Contains(j.Out.String()+j.Err.String(), j.canary) {
		found = append(found, "what the launcher printed")
	}
	return append(found, inFiles(j, j.canary)...)
}
