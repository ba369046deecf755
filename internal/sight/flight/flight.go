// Package flight reads dumps of PyTorch's flight recorder: the collectives that one process has
// enqueued on a backend such as NCCL, and whether each has ended. It is pure; package inspect makes
// ranks write dumps.
package flight

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/pickle"
)

// Dump is the report of one process.
type Dump struct {
	Version string  `json:"version"`           // version of the dump's format
	Library string  `json:"library,omitempty"` // version of NCCL
	Groups  []Group `json:"groups,omitempty"`
}

// Group is a process group and its last collectives, the oldest first.
type Group struct {
	Name  string `json:"name"`
	Desc  string `json:"desc,omitempty"`
	Ranks string `json:"ranks,omitempty"` // as PyTorch writes them: "[0, 1]"
	Last  int64  `json:"last"`            // highest number of a collective
	Calls []Call `json:"calls,omitempty"`
}

// Call is a collective.
type Call struct {
	Number int64         `json:"number"` // 1-based number in its group
	Kind   string        `json:"kind"`   // kind, such as nccl:all_reduce
	Shape  string        `json:"shape,omitempty"`
	State  string        `json:"state"` // scheduled, started or completed
	Began  time.Duration `json:"began"` // time since it was enqueued
	Where  string        `json:"where,omitempty"`
}

// Over reports whether the collective has ended.
func (c *Call) Over() bool { return over(c.State) }

func over(state string) bool { return state == "completed" }

// Bounds on the kept parts of a dump.
const (
	maxGroups = 64
	maxCalls  = 64 // calls of a group
	maxText   = 200
	maxValues = 2 << 20 // values of a pickle; a dump of 2,000 calls with their stacks has a tenth of them

	// maxEntries bounds the entries that are looked at, the last ones: a pickle may refer to one
	// entry a million times. PyTorch keeps 2,000 by default, and writes some 300 bytes for each.
	maxEntries = 1 << 16
)

// Parse reads a dump that PyTorch has written, a pickle, without running anything in it. now is the
// time of its host. The error of a dump that is still being written is pickle.ErrIncomplete.
func Parse(data []byte, now time.Time) (*Dump, error) {
	value, _, err := pickle.Read(data, maxValues)
	if err != nil {
		return nil, err
	}
	top := asDict(value)
	if top.text("version") == "" {
		return nil, errors.New("the dump is not one of a flight recorder")
	}
	d := &Dump{Version: top.text("version"), Library: top.text("comm_lib_version")}
	if d.Library == "" {
		d.Library = top.text("nccl_version")
	}
	groups := map[string]*group{}
	for name, value := range asDict(top["pg_config"]) {
		info := asDict(value)
		name = cut(name)
		if len(groups) < maxGroups {
			groups[name] = &group{Group: Group{Name: name, Desc: info.text("desc"), Ranks: info.text("ranks")}}
		}
	}
	entries := top.list("entries")
	for _, value := range entries[max(0, len(entries)-maxEntries):] {
		add(groups, asDict(value))
	}
	for _, g := range groups {
		if g.Name != "" || len(g.entries) > 0 { // gloo's only group has a second entry without a name
			d.Groups = append(d.Groups, g.whole(now))
		}
	}
	slices.SortFunc(d.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return d, nil
}

// group is a Group whose calls are still entries of the dump. The texts of an entry take a hundred
// times as long as the rest, so they are made only for the calls that are kept.
type group struct {
	Group
	entries []dict
}

// whole returns g with its calls.
func (g *group) whole(now time.Time) Group {
	for _, entry := range g.entries {
		g.Calls = append(g.Calls, Call{
			Number: entry.number("collective_seq_id"),
			Kind:   entry.text("profiling_name"),
			State:  entry.text("state"),
			Shape:  shape(entry),
			Began:  max(0, now.Sub(time.Unix(0, entry.number("time_created_ns")))),
			Where:  where(entry.list("frames")),
		})
	}
	return g.Group
}

// add puts an entry of a dump into its group, if it is a collective.
func add(groups map[string]*group, entry dict) {
	names := entry.list("process_group")
	if len(names) == 0 || entry.flag("is_p2p") {
		return
	}
	name, _ := names[0].(string)
	name = cut(name) // a long one takes long to look up, and a million entries may have it
	g := groups[name]
	if g == nil {
		if len(groups) >= maxGroups {
			return
		}
		g = &group{Group: Group{Name: name}}
		groups[name] = g
	}
	if len(names) > 1 && g.Desc == "" {
		desc, _ := names[1].(string)
		g.Desc = cut(desc)
	}
	g.Last = max(g.Last, entry.number("collective_seq_id"))
	g.entries = append(g.entries, entry)
	if len(g.entries) <= maxCalls {
		return
	}
	// Calls that go on are kept longest.
	oldest := slices.IndexFunc(g.entries, func(e dict) bool { return over(e.text("state")) })
	g.entries = slices.Delete(g.entries, max(0, oldest), max(0, oldest)+1)
}

// shape formats the inputs of a collective: "1024x4 Float".
func shape(entry dict) string {
	var parts []string
	types := entry.list("input_dtypes")
	for i, value := range entry.list("input_sizes") {
		sizes, is := value.(*pickle.List)
		if i == 3 || !is {
			parts = append(parts, "...")
			break
		}
		var dims []string
		for _, d := range sizes.Items[:min(len(sizes.Items), 8)] {
			if n, is := d.(int64); is {
				dims = append(dims, strconv.FormatInt(n, 10))
			}
		}
		part := strings.Join(dims, "x")
		if i < len(types) {
			kind, _ := types[i].(string)
			part += " " + kind
		}
		parts = append(parts, strings.TrimSpace(part))
	}
	return cut(strings.Join(parts, ", "))
}

// where returns the innermost function that is not PyTorch's own.
func where(frames []any) string {
	for _, value := range frames[:min(len(frames), 128)] {
		f := asDict(value)
		if f.text("filename") == "" || strings.Contains(f.text("filename"), "/torch/") {
			continue
		}
		parts := strings.Split(f.text("filename"), "/")
		return cut(f.text("name") + " (" + strings.Join(parts[max(0, len(parts)-2):], "/") + ":" +
			strconv.FormatInt(f.number("line"), 10) + ")")
	}
	return ""
}

// Trim cuts a dump that a host sends to the bounds of Parse.
func (d *Dump) Trim() {
	d.Version = cut(d.Version)
	d.Library = cut(d.Library)
	d.Groups = d.Groups[:min(len(d.Groups), maxGroups)]
	for i := range d.Groups {
		g := &d.Groups[i]
		g.Name = cut(g.Name)
		g.Desc = cut(g.Desc)
		g.Ranks = cut(g.Ranks)
		g.Calls = g.Calls[:min(len(g.Calls), maxCalls)]
		for j := range g.Calls {
			c := &g.Calls[j]
			c.Kind = cut(c.Kind)
			c.Shape = cut(c.Shape)
			c.State = cut(c.State)
			c.Where = cut(c.Where)
		}
	}
}

// Oldest returns the oldest collective that has not ended, or nil.
func (g *Group) Oldest() (oldest *Call) {
	for i := range g.Calls {
		if c := &g.Calls[i]; !c.Over() && (oldest == nil || c.Number < oldest.Number) {
			oldest = c
		}
	}
	return oldest
}

// Call returns the collective with a number, or nil.
func (g *Group) Call(number int64) *Call {
	if i := slices.IndexFunc(g.Calls, func(c Call) bool { return c.Number == number }); i >= 0 {
		return &g.Calls[i]
	}
	return nil
}

func cut(text string) string { return text[:min(len(text), maxText)] }

// dict is a dict of a dump.
type dict map[string]any

// asDict returns value as a dict, which is empty if value is none.
func asDict(value any) dict {
	if d, is := value.(*pickle.Dict); is {
		return d.Items
	}
	return nil
}

// text returns a string of d, cut to the bound, or "".
func (d dict) text(key string) string {
	text, _ := d[key].(string)
	return cut(text)
}

func (d dict) number(key string) int64 {
	n, _ := d[key].(int64)
	return n
}

func (d dict) flag(key string) bool {
	is, _ := d[key].(bool)
	return is
}

func (d dict) list(key string) []any {
	if l, is := d[key].(*pickle.List); is {
		return l.Items
	}
	return nil
}
