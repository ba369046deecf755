package launcher

import "github.com/gorun/gorun/internal/prose"

// Noticer is a [Host] with a notice for the user, such as an unusual way of reaching it. "" means
// no notice.
type Noticer interface{ Notice() string }

// notices returns the hosts' notices; hosts with equal notices share a line. It is pure.
func notices(planned []PlannedHost, hosts []Host) (lines []string) {
	var texts []string
	names := map[string][]string{}
	for i, h := range hosts {
		n, ok := h.(Noticer)
		if !ok || n.Notice() == "" {
			continue
		}
		text := n.Notice()
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], planned[i].Name)
	}
	for _, text := range texts {
		lines = append(lines, prose.List(names[text])+": "+text)
	}
	return lines
}
