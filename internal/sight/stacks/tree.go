package stacks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/prose"
)

// node is a function in progress in some ranks, below its caller.
type node struct {
	text  string
	ranks []int // ranks in the order of reports, each once even with several such processes
	below []*node
	named map[string]*node // below, by their texts: a host may tell of any number
	leaf  map[string][]int // ranks whose innermost function this is, by their activity
}

func newNode(text string) *node {
	return &node{text: text, named: map[string]*node{}, leaf: map[string][]int{}}
}

func (n *node) add(rank int) {
	if k := len(n.ranks); k == 0 || n.ranks[k-1] != rank {
		n.ranks = append(n.ranks, rank)
	}
}

func (n *node) child(text string) *node {
	b := n.named[text]
	if b == nil {
		b = newNode(text)
		n.named[text] = b
		n.below = append(n.below, b)
	}
	return b
}

// grow returns the tree of all ranks: programs, and below them their functions. all includes all
// threads.
func grow(ranks []Rank, all bool) *node {
	root := newNode("")
	for _, r := range ranks {
		if r.Error != "" {
			root.path(r.Rank, []string{r.Error}, "")
			continue
		}
		for i := range r.Processes {
			p := &r.Processes[i]
			if i > 0 && p.State == "Z" || len(p.Threads) == 0 && p.hasChild(r.Processes) {
				continue // a shell that waits for the rank's true program
			}
			label := p.Name
			if i > 0 {
				label = "below the rank: " + label
			}
			if len(p.Threads) == 0 {
				root.path(r.Rank, []string{label}, p.doing())
				continue
			}
			threads := p.Threads
			if !all {
				threads = threads[:1]
			}
			for k, t := range threads {
				path := []string{label}
				if k > 0 {
					path = append(path, "another thread")
				}
				doing := p.doing()
				if k > 0 || p.By == goroutines {
					doing = t.Name
				}
				for _, f := range slices.Backward(t.Frames) {
					if !all && strings.Contains(f.File, "/ring/internal/") { // there ranks differ and mean the same
						doing = "in ring"
						break
					}
					path = append(path, f.String())
				}
				root.path(r.Rank, path, doing)
			}
		}
	}
	root.sort()
	return root
}

// goroutines is the value of By for stacks that a Go program reported.
const goroutines = "goroutines"

func (p *Process) hasChild(all []Process) bool {
	return slices.ContainsFunc(all, func(other Process) bool { return other.Parent == p.PID })
}

// doing describes the activity of the process in its innermost function.
func (p *Process) doing() string {
	states := map[string]string{"R": "running", "D": "waits in the kernel, not killable", "T": "stopped by a signal",
		"t": "stopped by a debugger", "Z": "ended"}
	text := cmp.Or(p.Waits, states[p.State])
	if text == "" && p.Kernel != "" {
		text = "waits in the kernel's " + p.Kernel
	}
	if p.State == "D" && p.Waits != "" {
		text += ", not killable"
	}
	return text
}

func (n *node) path(rank int, path []string, doing string) {
	n.add(rank)
	for _, text := range path {
		n = n.child(text)
		n.add(rank)
	}
	if k := len(n.leaf[doing]); k == 0 || n.leaf[doing][k-1] != rank {
		n.leaf[doing] = append(n.leaf[doing], rank)
	}
}

// sort orders branches by their number of ranks, fewest first.
func (n *node) sort() {
	slices.SortStableFunc(n.below, func(a, b *node) int { return cmp.Compare(len(a.ranks), len(b.ranks)) })
	for _, b := range n.below {
		b.sort()
	}
}

// String formats a frame: the function, and the end of its file's path.
func (f Frame) String() string {
	if f.File == "" {
		return f.Func
	}
	parts := strings.Split(f.File, "/")
	file := strings.Join(parts[max(0, len(parts)-2):], "/")
	if f.Line > 0 {
		return fmt.Sprintf("%s (%s:%d)", f.Func, file, f.Line)
	}
	return fmt.Sprintf("%s (%s)", f.Func, file)
}

// limits bound the drawn part of a tree.
type limits struct {
	chain int // limit of functions in a chain of single calls
	fan   int // limit of functions called by one
}

// drawing is the text of a tree, as lines.
type drawing struct {
	limits
	lines []string
}

// draw appends the lines of n's descendants.
func (d *drawing) draw(n *node, indent string) {
	few := n.below
	rest := []*node(nil) // nodes that are left out, but for the last one: what most ranks do
	if len(few) > d.fan {
		few = n.below[:d.fan-1]
		rest = n.below[d.fan-1:]
	}
	doings := sortedLeaves(n.leaf)
	for i, doing := range doings {
		if i == d.fan {
			d.lines = append(d.lines, fmt.Sprintf("%s= and %d other states", indent, len(doings)-i))
			break
		}
		if doing != "" {
			d.lines = append(d.lines, indent+"= "+doing+d.of(n, n.leaf[doing]))
		}
	}
	for _, b := range few {
		d.branch(n, b, indent)
	}
	if len(rest) == 0 {
		return
	}
	if hidden := rest[:len(rest)-1]; len(hidden) > 0 {
		var ranks []int
		for _, b := range hidden {
			ranks = append(ranks, b.ranks...)
		}
		slices.Sort(ranks)
		ranks = slices.Compact(ranks)
		d.lines = append(d.lines, fmt.Sprintf("%sand %s, in %s", indent, prose.Count(len(hidden), "other function"),
			Names(ranks)))
	}
	d.branch(n, rest[len(rest)-1], indent)
}

// branch appends the lines of b, a descendant of n.
func (d *drawing) branch(n, b *node, indent string) {
	chain := []*node{b}
	for len(b.below) == 1 && len(b.leaf) == 0 {
		b = b.below[0]
		chain = append(chain, b)
	}
	head := len(chain)
	tail := 0
	if len(chain) > d.chain {
		head = 1
		tail = max(1, d.chain-2)
	}
	inner := indent
	if len(n.below) > 1 || len(n.leaf) > 0 {
		inner += "  "
	}
	for i, c := range chain {
		switch {
		case i == 0:
			mark := indent
			if inner != indent {
				mark += "- "
			}
			d.lines = append(d.lines, mark+c.text+d.of(n, c.ranks))
		case i < head || i >= len(chain)-tail:
			d.lines = append(d.lines, inner+c.text)
		case i == head:
			d.lines = append(d.lines, fmt.Sprintf("%s... %d more", inner, len(chain)-head-tail))
		}
	}
	d.draw(b, inner)
}

// of names the ranks of a branch, unless the branch has all ranks of its stem.
func (d *drawing) of(stem *node, ranks []int) string {
	if len(ranks) == len(stem.ranks) && stem.text != "" {
		return ""
	}
	return "  <- " + Names(ranks)
}

func sortedLeaves(leaf map[string][]int) []string {
	var all []string
	for doing := range leaf {
		all = append(all, doing)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(leaf[a]), len(leaf[b])), cmp.Compare(a, b))
	})
	return all
}
