package inspect

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/stacks"
)

// find returns the path of a tool in the PATH of the process, or of this one, or "". Nobody but the
// user and root can have made the tool.
func (s *subject) find(name string) string {
	path, _ := trust.Program(name, s.env("PATH")+":"+os.Getenv("PATH"))
	return path
}

const (
	toolLimit = 3 * time.Second
	maxTool   = 4 << 20 // bytes of output
)

// tool runs a debugger and returns its output.
func (s *subject) tool(ctx context.Context, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = trust.StartDir() // gdb looks for sources in its working directory, which others may own
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C", "DEBUGINFOD_URLS="}
	out := &prose.Head{Limit: maxTool}
	errs := &prose.Head{Limit: maxTool}
	cmd.Stdout = out
	cmd.Stderr = errs
	cmd.WaitDelay = 100 * time.Millisecond
	err := cmd.Run()
	if ctx.Err() != nil {
		return out.Bytes(), errors.New("it took too long")
	}
	if err != nil {
		return out.Bytes(), errors.New(explain(string(errs.Bytes()), err))
	}
	return out.Bytes(), nil
}

var errUntraceable = errors.New("the kernel does not let you trace it (kernel.yama.ptrace_scope)")

// explain shortens what a debugger says of its failure.
func explain(text string, err error) string {
	lower := strings.ToLower(text)
	if strings.Contains(lower, "operation not permitted") || strings.Contains(lower, "permission denied") {
		return errUntraceable.Error()
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}

func (s *subject) euStack(ctx context.Context, path string) ([]stacks.Thread, error) {
	maps := s.mappings()
	args := []string{"-n", strconv.Itoa(stacks.MaxFrames), "-p", strconv.Itoa(s.PID)}
	reading, cancel := context.WithTimeout(ctx, lineLimit)
	large := s.lines.large(reading, maps)
	cancel()
	if large {
		args = append(args, "-s")
	}
	out, err := s.tool(ctx, path, args...)
	reading, cancel = context.WithTimeout(ctx, lineLimit)
	defer cancel()
	threads := parseEuStack(string(out), s.PID, func(address uint64, f *stacks.Frame) {
		s.lines.line(reading, maps, address, f)
	})
	if len(threads) > 0 {
		err = nil // it complains of threads that have ended, and of frames without names
	}
	return threads, err
}

// parseEuStack parses lines such as "#0 0x00007f read - 1", each followed by one with the source if
// that is known. place fills in the source of an address.
func parseEuStack(text string, pid int, place func(address uint64, f *stacks.Frame)) (threads []stacks.Thread) {
	frame := regexp.MustCompile(`^#\d+ +0x([0-9a-f]+)(?: - \d+)?(?: (.*?))?(?: - \d+)?$`)
	source := regexp.MustCompile(`^ +(/.*?):(\d+)(?::\d+)?$`)
	main := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if id, is := strings.CutPrefix(line, "TID "); is {
			id = strings.TrimSuffix(id, ":")
			if id == strconv.Itoa(pid) {
				main = len(threads)
			}
			threads = append(threads, stacks.Thread{Name: "thread " + id})
			continue
		}
		if len(threads) == 0 {
			continue
		}
		t := &threads[len(threads)-1]
		if m := frame.FindStringSubmatch(line); m != nil {
			f := stacks.Frame{Func: named(m[2])}
			address, err := strconv.ParseUint(m[1], 16, 64)
			if err == nil && len(t.Frames) > 0 {
				address-- // address of the call, which returns to the next instruction
			}
			place(address, &f)
			t.Frames = append(t.Frames, f)
		} else if m := source.FindStringSubmatch(line); m != nil && len(t.Frames) > 0 {
			f := &t.Frames[len(t.Frames)-1]
			f.File = m[1]
			f.Line, _ = strconv.Atoi(m[2])
		}
	}
	return tidy(first(threads, main))
}

// unnamed is a function whose name is not known.
const unnamed = "??"

// named returns the name without the version of its library.
func named(function string) string {
	name, _, _ := strings.Cut(function, "@")
	return cmp.Or(name, unnamed)
}

// tidy leaves out threads without frames, and all but one of several unnamed functions in a row.
func tidy(threads []stacks.Thread) []stacks.Thread {
	for i := range threads {
		threads[i].Frames = slices.CompactFunc(threads[i].Frames, func(a, b stacks.Frame) bool {
			return a == b && a.Func == unnamed
		})
	}
	return slices.DeleteFunc(threads, func(t stacks.Thread) bool { return len(t.Frames) == 0 })
}

func (s *subject) gdb(ctx context.Context, path string) ([]stacks.Thread, error) {
	out, err := s.tool(ctx, path, "-batch", "-nx", "-p", strconv.Itoa(s.PID), "-iex", "set auto-load off", "-iex",
		"set debuginfod enabled off", "-ex", "set width 0",
		"-ex", "thread apply all bt "+strconv.Itoa(stacks.MaxFrames))
	threads := parseGDB(string(out))
	if len(threads) > 0 {
		return threads, nil
	}
	if err == nil {
		err = errors.New(explain(string(out), errors.New("it shows no stack")))
	}
	return nil, err
}

// parseGDB parses the output of "thread apply all bt". gdb numbers the main thread 1.
func parseGDB(text string) (threads []stacks.Thread) {
	head := regexp.MustCompile(`^Thread (\d+) \(.*?"?([^"]*)"?\):$`)
	frame := regexp.MustCompile(`^#\d+ +(?:0x[0-9a-f]+ in )?(.+?) \(.*?\)(?: (?:at (.+):(\d+)|from .+))?$`)
	main := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := head.FindStringSubmatch(line); m != nil {
			if m[1] == "1" {
				main = len(threads)
			}
			threads = append(threads, stacks.Thread{Name: "thread " + m[1]})
			continue
		}
		if m := frame.FindStringSubmatch(line); m != nil && len(threads) > 0 {
			t := &threads[len(threads)-1]
			number, _ := strconv.Atoi(m[3])
			t.Frames = append(t.Frames, stacks.Frame{Func: m[1], File: m[2], Line: number})
		}
	}
	return tidy(first(threads, main))
}

// parseGoroutines parses the output of runtime.Stack. Goroutine 1 runs main.
func parseGoroutines(text string) (threads []stacks.Thread) {
	head := regexp.MustCompile(`^goroutine (\d+) .*\[([^\],]*).*\]:$`)
	main := 0
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := head.FindStringSubmatch(line); m != nil {
			if inside = len(threads) < stacks.MaxThreads || m[1] == "1"; !inside {
				continue
			}
			if m[1] == "1" {
				main = len(threads)
			}
			threads = append(threads, stacks.Thread{Name: "goroutine: " + m[2]})
			continue
		}
		if !inside || line == "" || strings.HasPrefix(line, "created by ") {
			inside = inside && line != "" && !strings.HasPrefix(line, "created by ")
			continue
		}
		t := &threads[len(threads)-1]
		if place, is := strings.CutPrefix(line, "\t"); is && len(t.Frames) > 0 {
			place, _, _ = strings.Cut(place, " ")
			if i := strings.LastIndexByte(place, ':'); i > 0 {
				f := &t.Frames[len(t.Frames)-1]
				f.File = place[:i]
				f.Line, _ = strconv.Atoi(place[i+1:])
			}
		} else if !is {
			if i := strings.LastIndexByte(line, '('); i > 0 {
				line = line[:i]
			}
			base, _, _ := strings.Cut(line, "(") // text before the receiver of a method
			base, _, _ = strings.Cut(base, "[")
			t.Frames = append(t.Frames, stacks.Frame{Func: line[strings.LastIndexByte(base, '/')+1:]})
		}
	}
	return first(threads, main)
}
