package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/test/faults"
	"github.com/gorun/gorun/internal/test/lab"
)

// stint is a rank's report after its first step in an epoch.
type stint struct {
	rank, size, pid int
	host            string
	paused          time.Duration // the longest, since its last stint began
	imported        time.Duration // from its process's first line to hvd.init
}

// job is one job of train.py on its own hosts.
type job struct {
	*faults.Job
	c      *lab.Cluster
	folder string
	read   int // bytes of its output that told of epochs before
}

// start starts a job whose discovery prints the list, one host per line.
func (b *bench) start(ctx context.Context, s launcher, c *lab.Cluster, list, flags string, words ...string) (*job,
	error) {
	j := &job{c: c}
	var err error
	if j.folder, err = os.MkdirTemp(b.dir, "job-"); err != nil {
		return nil, err
	}
	if err := j.list(list); err != nil {
		return nil, err
	}
	discover := filepath.Join(j.folder, "discover")
	if err := os.WriteFile(discover, []byte("#!/bin/sh\nexec cat "+j.folder+"/hosts\n"), 0o700); err != nil {
		return nil, err
	}
	flags = strings.ReplaceAll(flags, "HOSTS", "-H "+strings.Join(strings.Fields(list), ","))
	flags = strings.ReplaceAll(flags, "DISCOVERY", "--host-discovery-script "+discover)
	if b.log != "" && s.name == "gorun" {
		flags += " --timestamp --json-events " + filepath.Join(b.log, "events."+filepath.Base(j.folder))
	}
	argv := slices.Concat(s.argv, strings.Fields(flags), []string{lab.Python, b.script, j.folder}, words)
	j.Job, err = new(faults.Marks).Start(ctx, c, b.env, argv...)
	return j, err
}

// list sets which hosts discovery reports from now on.
func (j *job) list(text string) error {
	file := filepath.Join(j.folder, "hosts")
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

var errEnded = errors.New("the job has ended")

// await waits until all ranks train in a new epoch for which fits holds.
func (j *job) await(limit time.Duration, fits func(size int) bool) (ranks []stint, err error) {
	line := regexp.MustCompile(`stint rank (\d+) of (\d+) sum (\d+) batch \d+ host (\S+) pid (\d+) paused ([0-9.]+) imported ([0-9.]+)\s*\n`)
	whole := func() bool {
		found := map[int]map[int]stint{} // by size and rank
		text := j.Out.String()[j.read:]
		for _, at := range line.FindAllStringSubmatchIndex(text, -1) {
			m := make([]string, 8)
			for i := range m {
				m[i] = text[at[2*i]:at[2*i+1]]
			}
			s := stint{host: m[4]}
			s.rank, _ = strconv.Atoi(m[1])
			s.size, _ = strconv.Atoi(m[2])
			s.pid, _ = strconv.Atoi(m[5])
			s.paused = seconds(m[6])
			s.imported = seconds(m[7])
			if !fits(s.size) {
				continue
			}
			if found[s.size] == nil {
				found[s.size] = map[int]stint{}
			}
			found[s.size][s.rank] = s
			if len(found[s.size]) == s.size {
				for rank := range s.size {
					ranks = append(ranks, found[s.size][rank])
				}
				j.read += at[1]
				return true
			}
		}
		return false
	}
	if j.Await(limit, whole) {
		return ranks, nil
	}
	select {
	case <-j.Ended():
		return nil, errEnded
	default:
		return nil, fmt.Errorf("nothing within %.0f s", limit.Seconds())
	}
}

func seconds(text string) time.Duration {
	s, _ := strconv.ParseFloat(text, 64)
	return time.Duration(s * float64(time.Second))
}

// kill ends a rank as a crash does.
func (j *job) kill(s stint) error {
	for _, pid := range j.On(s.host, j.folder) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		ids := regexp.MustCompile(`(?m)^NSpid:.*\s(\d+)$`).FindSubmatch(status)
		if ids != nil && string(ids[1]) == strconv.Itoa(s.pid) {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("there is no process %d on %s", s.pid, s.host)
}

// on returns the ranks of a host.
func on(host string, ranks []stint) (there []stint) {
	for _, s := range ranks {
		if s.host == host {
			there = append(there, s)
		}
	}
	return there
}
